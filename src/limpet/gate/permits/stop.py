"""Lets one thread end the waiting of another."""

import contextlib
import threading


class Stopped(Exception):
    """The wait was ended before there was room."""


class Stop:
    """A flag that is set once and stays set.

    It is like `threading.Event`, but made of a single lock, so that a signal handler may set it. A
    handler may run while the same thread is setting the flag or waiting for it; an event would then
    wait for a lock that the thread already holds.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._unset = threading.Lock()
        self._unset.acquire()

    def set(self) -> None:
        """Request the stop; a repeat does nothing."""
        self._is_set = True
        with contextlib.suppress(RuntimeError):  # the lock is free: the flag was set before
            self._unset.release()

    def is_set(self) -> bool:
        """Whether the stop was requested."""
        return self._is_set

    def wait(self, seconds: float) -> None:
        """Wait until the flag is set, at most for these seconds."""
        if self._unset.acquire(timeout=seconds):
            self.set()  # frees the lock again for other waiters
