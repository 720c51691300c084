"""The supervisor's link to the guardian: asked to stop, told where the store is."""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from limpet.host import processes


class GuardianLink:
    """Hears the guardian, and hears when it is gone."""

    def __init__(
        self,
        descriptor: int,
        guardian: int,
        asked: Callable[[int, bool], None],
        gone: Callable[[], None],
    ) -> None:
        """`asked`: called with the number of requests to stop, and whether to load new code."""
        self._sock = socket.socket(fileno=descriptor)
        self._guardian = guardian
        self._asked = asked
        self._gone = gone

    def follow(self) -> None:
        """Begin to listen; signals for the worker are the guardian's to interpret."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._gone)
        processes.die_with_parent(signal.SIGUSR1)
        if os.getppid() != self._guardian:
            self._gone()
        for number in processes.GROUP_SIGNALS:
            loop.add_signal_handler(number, lambda: None)
        processes.take_signals()
        self._sock.setblocking(False)
        loop.add_reader(self._sock, self._hear)

    def tell(self, **facts: Any) -> None:
        with contextlib.suppress(OSError):
            self._sock.send(json.dumps(facts).encode() + b"\n")

    def _hear(self) -> None:
        try:
            text = self._sock.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            text = b""
        if text:
            self._asked(text.count(b"stop\n"), b"reload\n" in text)
        else:
            asyncio.get_running_loop().remove_reader(self._sock)
            self._gone()
