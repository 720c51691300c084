"""How one thread asks another to wait no longer."""

import contextlib
import threading


class Stopped(Exception):
    """Whoever waited does not want it any more."""


class Stop:
    """Set once, and then it stays so.

    As `threading.Event`, but made of one lock and nothing else: it may be set by a handler of
    signals, which may strike in the middle of setting it, or of waiting for it. An event would
    wait for a lock that the thread holds already.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._unset = threading.Lock()
        self._unset.acquire()

    def set(self) -> None:
        """Ask to stop; a repeat does nothing."""
        self._is_set = True
        with contextlib.suppress(RuntimeError):  # nobody holds it: it was set before
            self._unset.release()

    def is_set(self) -> bool:
        """Whether it was asked for."""
        return self._is_set

    def wait(self, seconds: float) -> None:
        """Until it is set, or so long."""
        if self._unset.acquire(timeout=seconds):
            self.set()  # for others who wait
