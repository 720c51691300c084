"""Workers on servers of their own, whose clock, network and data a test can spoil."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from lifecycle.modes import BEST, Case
from lifecycle.place import FAILED, Handle, Place
from lifecycle.tree import Worker
from servers import PostgresServer, RedisServer
from servers.faketime import FakeTime
from servers.proxy import Proxy

from limpet.domain.state import State
from limpet.storage.redis.link import script_of

Server = RedisServer | PostgresServer

# The same on more servers and in more ways, for `make prove`.
LONG = bool(os.environ.get("LIMPET_TEST_LONG"))


def start(kind: str, folder: Path, clock: FakeTime | None = None) -> Server:
    """A server of that kind, with nothing in it, or with what is in its folder."""
    environment = clock.environment if clock else None
    if kind == "postgres":
        return PostgresServer(folder, environment=environment).start()
    return RedisServer(folder, kind=kind, environment=environment).start()


@dataclass
class Net:
    """A server, a proxy before it, and workers that reach it through that."""

    kind: str
    folder: Path
    clock: FakeTime
    server: Server
    proxy: Proxy
    place: Place
    others: list[Server]


def request_of(kind: str, verb: str) -> bytes:
    """What a request of a verb has in it."""
    if kind == "postgres":
        return f"v1_{verb}".encode()
    return script_of(verb).sha.encode()


def hide_lock(worker: Worker, place: Place) -> None:
    """Make a worker look like one of another host: nobody here can prove that it is dead."""
    lock = place.session(worker).lock
    assert lock is not None
    for name in (lock.path, lock.path + ".core"):
        Path(name).unlink()


def assert_untouched(place: Place, *jobs: Handle) -> None:
    """Run once, and charged for nothing."""
    for job in jobs:
        assert len(place.attempts(job)) == 1
        assert place.job(job).state is State.SUCCEEDED
        assert place.job(job).counters == (0, 0, 0)


@contextmanager
def net(kind: str, request: pytest.FixtureRequest) -> Iterator[Net]:
    """All of it, gone at the end; told about if the test fails."""
    folder = Path(tempfile.mkdtemp(prefix="limpet-net-"))
    folder.chmod(0o755)
    clock = FakeTime()
    try:
        server = start(kind, folder / "first", clock)
        proxy = Proxy(server.port)
        others: list[Server] = []
        place: Place | None = None
        # What the test makes must be open to a worker of another user.
        umask = os.umask(0)
        try:
            way = proxy.url(server.url, server.port)
            place = Place.make(Case(BEST, kind), server.url, way)
            yield Net(kind, folder, clock, server, proxy, place, others)
            if request.node.stash.get(FAILED, True):
                print(*place.describe(), sep="\n")
        finally:
            os.umask(umask)
            if place is not None:
                place.clear()
            proxy.close()
            for each in (server, *others):
                each.kill()
    finally:
        clock.remove()
        shutil.rmtree(folder, ignore_errors=True)
