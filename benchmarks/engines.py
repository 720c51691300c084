"""The servers of a run: each is started once and is the same for Limpet and its peers.

Every figure gets an empty store on it. A server is started when it is first needed, on a free port
of this machine, and stopped when the run ends.
"""

import atexit
import contextlib
import functools
import shutil
import socket
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import apsw
import psycopg

HERE = Path(__file__).parent
# The tests know how to start real servers.
sys.path.append(str(HERE.parent / "tests"))

from servers import NoServer, PostgresServer, RedisServer  # noqa: E402
from servers.postgres import programs, remove_copies, versions  # noqa: E402
from servers.redis import program  # noqa: E402

# The defaults of a server; the tests turn all three off.
DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}


class Engine(ABC):
    """A kind of server (or file) for stores, and its settings."""

    name: str
    scheme: str
    # A URL of that kind, to find the store that serves it.
    example: str

    @abstractmethod
    def missing(self) -> str | None:
        """Why the engine cannot run here, in one sentence; None if it can."""

    @abstractmethod
    def version(self) -> str:
        """Its version and settings, as the results show them."""

    def program(self) -> Path | None:
        """The program of the server, printed when a run begins."""
        return None

    @abstractmethod
    def new_store(self, folder: Path) -> contextlib.AbstractContextManager[str]:
        """The URL of an empty store, which is gone afterwards; `folder` is the figure's own."""

    def filled(self, url: str) -> None:  # noqa: B027 - most have nothing to do
        """The jobs of a figure were handed in: do what a server does by itself with time."""

    def apart(self) -> "Engine":
        """One that can be used at the same time as this one."""
        return self

    def close(self) -> None:  # noqa: B027 - a file needs none
        """Stop what was started."""


class SqliteFile(Engine):
    """A new file for each figure."""

    scheme = "sqlite"
    example = "sqlite:///jobs.db"

    def __init__(self, synchronous: str = "full") -> None:
        self.name = "SQLite" if synchronous == "full" else f"SQLite, {synchronous}"
        self.synchronous = synchronous

    def missing(self) -> str | None:
        return None

    def version(self) -> str:
        return f"SQLite {apsw.sqlite_lib_version()}, WAL, `synchronous={self.synchronous}`"

    @contextlib.contextmanager
    def new_store(self, folder: Path) -> Iterator[str]:
        yield f"sqlite:///{folder}/jobs.db?synchronous={self.synchronous}"


class Redis(Engine):
    """A server of Redis; `appendfsync` is None without persistence."""

    scheme = "redis"
    example = "redis://127.0.0.1:6379/0"

    def __init__(self, appendfsync: str | None = None) -> None:
        self.appendfsync = appendfsync
        self.name = f"Redis, AOF {appendfsync}" if appendfsync else "Redis"
        self._server: RedisServer | None = None
        self._folder: Path | None = None

    def missing(self) -> str | None:
        try:
            _redis()
        except NoServer as error:
            return str(error)
        return None

    def version(self) -> str:
        printed = subprocess.run(
            [_redis(), "--version"], capture_output=True, text=True, check=True
        )
        number = printed.stdout.partition("v=")[2].split()[0]
        how = f"`appendfsync {self.appendfsync}`" if self.appendfsync else "no persistence"
        return f"Redis {number}, {how}"

    def program(self) -> Path:
        return _redis()

    @contextlib.contextmanager
    def new_store(self, folder: Path) -> Iterator[str]:
        server = self._running()
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            line.sendall(b"FLUSHALL SYNC\r\n")
            if line.recv(16) != b"+OK\r\n":
                raise RuntimeError("Redis did not empty itself.")
        yield server.url

    def apart(self) -> "Redis":
        return Redis(self.appendfsync)

    def close(self) -> None:
        if self._server is not None and self._folder is not None:
            self._server.kill()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._server = None

    def _running(self) -> RedisServer:
        if self._server is None:
            self._folder = _open_folder("redis")
            keep = ["--appendonly", "no"]
            if self.appendfsync:
                keep = ["--appendonly", "yes", "--appendfsync", self.appendfsync]
            self._server = RedisServer(self._folder, *keep, "--save", "", binary=_redis())
            atexit.register(self.close)
            self._server.start()
        return self._server


class Postgres(Engine):
    """A server of PostgreSQL, as durable as it comes; each figure has a database of its own."""

    scheme = "postgresql"
    example = "postgresql://127.0.0.1/postgres"
    name = "PostgreSQL"

    def __init__(self) -> None:
        self._server: PostgresServer | None = None
        self._folder: Path | None = None
        self._count = 0

    def missing(self) -> str | None:
        try:
            programs(_postgres())
        except NoServer as error:
            return str(error)
        return None

    def version(self) -> str:
        printed = subprocess.run(
            [self.program(), "--version"], capture_output=True, text=True, check=True
        )
        how = ", ".join(f"`{name} {value}`" for name, value in DURABLE.items())
        return f"PostgreSQL {printed.stdout.split()[2]}, {how}, else as it comes"

    def program(self) -> Path:
        return versions()[_postgres()] / "postgres"

    @contextlib.contextmanager
    def new_store(self, folder: Path) -> Iterator[str]:
        server = self._running()
        self._count += 1
        name = f"bench{self._count}"
        with psycopg.connect(server.url, autocommit=True) as line:
            line.execute(f"create database {name} template template0")
            # What the one before wrote is not written out while this one is measured.
            line.execute("checkpoint")
        try:
            yield server.url.rpartition("/")[0] + f"/{name}"
        finally:
            with psycopg.connect(server.url, autocommit=True) as line:
                line.execute(f"drop database {name} with (force)")

    def filled(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as line:
            line.execute("vacuum analyze")

    def close(self) -> None:
        if self._server is not None and self._folder is not None:
            self._server.kill()
            shutil.rmtree(self._folder, ignore_errors=True)
            remove_copies()
            self._server = None

    def _running(self) -> PostgresServer:
        if self._server is None:
            self._folder = _open_folder("postgres")
            self._server = PostgresServer(self._folder, version=_postgres())
            self._server.settings |= DURABLE
            atexit.register(self.close)
            self._server.start()
        return self._server


def _open_folder(kind: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"limpet-bench-{kind}-"))
    folder.chmod(0o755)
    return folder


@functools.cache
def _redis() -> Path:
    """The system's, as users have it, before the old one of a wheel."""
    found = shutil.which("redis-server")
    return Path(found) if found else program("redis")


@functools.cache
def _postgres() -> int:
    """The version in the middle of those that are served, else the newest that is here."""
    here = versions()
    return 15 if 15 in here else max(here, default=0)


SQLITE, SQLITE_NORMAL = SqliteFile(), SqliteFile("normal")
REDIS, REDIS_EVERYSEC, REDIS_ALWAYS = Redis(), Redis("everysec"), Redis("always")
POSTGRES = Postgres()
