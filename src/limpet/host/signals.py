"""Signals as bytes in a pipe, and the children that have ended, for processes that poll for both.

Standard library only, because guardians import it.
"""

import contextlib
import os
import signal
from collections.abc import Iterator

from limpet.host import processes


class SignalPipe:
    """Turns signals of this process into bytes in a pipe, instead of their usual effect."""

    def __init__(self, *numbers: int) -> None:
        """For the main thread only."""
        self._reader, self._writer = os.pipe()
        for end in (self._reader, self._writer):
            os.set_blocking(end, False)
        self._descriptor_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._handlers_before = {number: signal.getsignal(number) for number in numbers}
        processes.withstand(*numbers)

    def fileno(self) -> int:
        return self._reader

    def read(self) -> bytes:
        """The numbers of the signals that came since the last read."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._reader, 512)
        return b""

    def close(self) -> None:
        """Restore the former effect of the signals."""
        for number, handler in self._handlers_before.items():
            # None: the handler before was not set by Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._descriptor_before)
        os.close(self._reader)
        os.close(self._writer)

    def leave_to_parent(self) -> None:
        """In a forked child: close the pipe; signals have their default effect."""
        signal.set_wakeup_fd(-1)
        for number in self._handlers_before:
            signal.signal(number, signal.SIG_DFL)
        os.close(self._reader)
        os.close(self._writer)


def ended_children() -> Iterator[int]:
    """Each child that has ended; the caller reaps it before it takes the next, or stops."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None:
            return
        yield found.si_pid
