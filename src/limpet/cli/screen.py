"""Takes the terminal over for a live view, and gives it back on every way out."""

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Any

from rich.console import RenderableType
from rich.live import Live

from limpet.cli.terminal import console, size_of
from limpet.host import processes
from limpet.host.signals import SignalPipe

_SIGNALS = (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGTSTP)

STOP, RESIZED = "stop", "resized"


class Screen:
    """The whole terminal: `draw` a picture, `wait` for a key, a new size or a timeout."""

    def __init__(self) -> None:
        self._live = Live(
            console=console(),
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._keys = sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else None
        self._mode: list[Any] | None = None

    def __enter__(self) -> "Screen":
        self._signals = SignalPipe(*_SIGNALS)
        self._take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._give_back()
        self._signals.close()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return size_of(sys.stdout) or (80, 24)  # gone: the next write fails

    def draw(self, picture: RenderableType) -> None:
        """Show a picture from the top; lines that do not fit are left out."""
        self._live.console.size = self.size
        self._live.update(picture, refresh=True)

    def wait(self, seconds: float) -> str | None:
        """A key, `STOP` or `RESIZED`; None when the time is up."""
        until = time.monotonic() + seconds
        wake = self._signals.fileno()
        listened = [wake] if self._keys is None else [wake, self._keys]
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select(listened, [], [], left)
            if wake in ready and (happened := self._signalled()) is not None:
                return happened
            if self._keys is not None and self._keys in ready:
                key = os.read(self._keys, 64).decode(errors="replace")
                return key or STOP  # nothing at all: the terminal is gone
        return None

    def _signalled(self) -> str | None:
        numbers = self._signals.read()
        if any(number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT) for number in numbers):
            return STOP
        if signal.SIGTSTP in numbers:
            self._suspend()
            return RESIZED
        return RESIZED if signal.SIGWINCH in numbers else None

    def _suspend(self) -> None:
        """Stop this process, with the terminal given back to the shell, until it is continued."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        processes.withstand(signal.SIGTSTP)
        self._take()

    def _take(self) -> None:
        if self._keys is not None:
            self._mode = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys)
        self._live.start()

    def _give_back(self) -> None:
        # A terminal that is gone cannot be restored.
        with contextlib.suppress(OSError):
            self._live.stop()
        if self._keys is not None and self._mode is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._mode)
