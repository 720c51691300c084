"""One server as a process of the tests: it dies with them, whatever ends them."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from limpet.host.processes import die_with_parent

_PATIENCE_SECONDS = 30
_LOOK_SECONDS = 0.02


class NoServer(Exception):
    """A server cannot be had; the sentence says what was looked for."""


def free_port() -> int:
    """A port of this machine that nobody has just now."""
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port: int = some.getsockname()[1]
        return port


def can_execute(program: Path) -> bool:
    return os.access(program, os.X_OK)


class Process:
    """A program that listens on a port."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(
        self,
        command: Sequence[str | Path],
        answers: Callable[[], bool],
        *,
        user: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it and return when it answers; raises with what it said if it does not."""
        parent = os.getpid()

        def tied() -> None:
            die_with_parent()
            if os.getppid() != parent:
                os._exit(1)

        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                env={**os.environ, **(environment or {})}, user=user, group=user,
                extra_groups=None if user is None else [], preexec_fn=tied,  # noqa: PLW1509
            )  # fmt: skip
        until = time.monotonic() + _PATIENCE_SECONDS
        while not answers():
            if not self.is_running or time.monotonic() > until:
                self.stop(signal.SIGKILL)
                raise RuntimeError(f"{command[0]} did not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(_LOOK_SECONDS)

    def stop(self, number: signal.Signals) -> None:
        """End it with a signal, and return when it is gone."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, to freeze it for one."""
        os.kill(self.pid, number)
