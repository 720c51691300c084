"""For how long nothing is claimed on a server that took over: the longest lease of the workers."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from acceptance.postgres_place import open_folder
from acceptance.redis_place import raw, until
from contract.driver import Holder, add, new_id
from servers import PostgresServer, RedisServer

from limpet.domain.cause import Drained
from limpet.domain.session import NewSession, SessionKind
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

SHORT, MIDDLE, LONG = timedelta(seconds=1), timedelta(seconds=2.5), timedelta(hours=1)
KINDS = ("redis", "valkey", "postgres")


class Primary:
    """A server that can be followed by another one with the same data: itself, started anew."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._server: RedisServer | PostgresServer = (
            PostgresServer(folder) if kind == "postgres" else RedisServer(folder, kind=kind)
        )

    @contextmanager
    def running(self) -> Iterator[Store]:
        self._server.start()
        try:
            with closing(open_store(self._server.url)) as store:
                yield store
        finally:
            self._server.kill()

    def restart(self) -> None:
        if isinstance(self._server, RedisServer):
            with raw(self._server) as client:
                client.save()
            self._server.kill()
        else:
            self._server.stop()
        self._server.start()


@pytest.fixture(params=KINDS)
def primary(request: pytest.FixtureRequest) -> Iterator[Primary]:
    with open_folder() as folder:
        yield Primary(str(request.param), folder / "server")


def register(store: Store, kind: SessionKind, lease: timedelta) -> str:
    """A session of another kind than a worker's."""
    new = NewSession(new_id(), kind, str(kind), "host", 1, lease=lease)
    store.register(new)
    return new.id


def claims(holder: Holder) -> bool:
    holder.renew(stepped=True)
    return bool(holder.claim(1))


def test_long_lease_of_a_permit_or_a_dead_worker_does_not_hold_up_claims_after_a_failover(
    primary: Primary,
) -> None:
    with primary.running() as store:
        worker, idle = Holder(store, lease=SHORT), Holder(store, lease=MIDDLE)
        add(store)
        register(store, SessionKind.PERMIT, LONG)
        register(store, SessionKind.ONCE, LONG)
        ended = Holder(store, lease=LONG)
        store.end(ended.id, Drained())
        worker.exchange(want=worker.want(0))  # the server has given jobs before
        primary.restart()
        began = time.monotonic()
        worker.renew(stepped=True)
        idle.renew(stepped=True)
        assert worker.exchange(want=worker.want(1)).quiet
        until(lambda: claims(worker), 20)
        # Not before whoever this server may have forgotten, with the longest lease that a worker
        # has here, must have noticed.
        assert time.monotonic() - began >= MIDDLE.total_seconds() - 0.1
