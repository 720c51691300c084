"""The supervisor's link to the guardian: receives requests to stop, sends where the store is."""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from limpet.host import processes


class StopRequest:
    """The request to stop: how many signals came, and whether it is only to load new code."""

    def __init__(self) -> None:
        self.signals = 0
        self.reload = False
        self._made = asyncio.Event()

    def make(self, signals: int = 0, *, reload: bool = False) -> None:
        """Request the stop: because of signals, for new code, or because nothing is left to do."""
        self.signals += signals
        self.reload = self.reload or reload
        self._made.set()

    async def wait(self) -> None:
        """Wait until the request is made."""
        await self._made.wait()


class GuardianLink:
    """Receives the guardian's messages, and notices when the guardian is dead."""

    def __init__(
        self,
        descriptor: int,
        guardian: int,
        stop: StopRequest,
        gone: Callable[[], None],
    ) -> None:
        """`gone`: called when the guardian is dead."""
        self._sock = socket.socket(fileno=descriptor)
        self._guardian = guardian
        self._stop = stop
        self._gone = gone

    def follow(self) -> None:
        """Begin to read; signals to the worker are ignored here, for the guardian acts on them."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._gone)
        processes.die_with_parent(signal.SIGUSR1)
        if os.getppid() != self._guardian:
            self._gone()
        for number in processes.GROUP_SIGNALS:
            loop.add_signal_handler(number, lambda: None)
        processes.take_signals()
        self._sock.setblocking(False)
        loop.add_reader(self._sock, self._receive)

    def send(self, **facts: Any) -> None:
        with contextlib.suppress(OSError):
            self._sock.send(json.dumps(facts).encode() + b"\n")

    def _receive(self) -> None:
        try:
            text = self._sock.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            text = b""
        if text:
            self._stop.make(text.count(b"stop\n"), reload=b"reload\n" in text)
        else:
            asyncio.get_running_loop().remove_reader(self._sock)
            self._gone()
