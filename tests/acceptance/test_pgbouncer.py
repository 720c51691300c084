"""PostgreSQL behind PgBouncer, which lends a connection of the server for one transaction only."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from acceptance.postgres_place import open_folder, raw_and_empty, running
from contract.driver import BOOM, Holder, add, add_many, get, new_job
from lifecycle.modes import BEST, Case
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Place
from lifecycle.tasks import quick, quick_sync
from servers.pgbouncer import PgBouncer
from servers.postgres import PostgresServer

from limpet import App
from limpet.domain.cause import Drained
from limpet.domain.errors import StoreBusy, StoreUnavailable
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail
from limpet.storage.contract.bell import Topic
from limpet.storage.postgres import bell, database
from limpet.storage.postgres.store import PostgresStore

POOL = 3


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[PostgresServer]:
    with running(PostgresServer(folder / "server", version=15)) as started:
        yield started


@contextmanager
def pooler(folder: Path, server: PostgresServer, **settings: str) -> Iterator[PgBouncer]:
    with open_folder(folder) as own:
        started = PgBouncer(own, server, **{"default_pool_size": str(POOL), **settings}).start()
        try:
            yield started
        finally:
            started.kill()


@pytest.fixture(scope="module")
def lending(folder: Path, server: PostgresServer) -> Iterator[PgBouncer]:
    """One that lends a few connections of the server to all."""
    with pooler(folder, server) as started:
        yield started


@pytest.fixture
def raw(server: PostgresServer) -> Iterator[psycopg.Connection]:
    with raw_and_empty(server) as connection:
        yield connection


@pytest.fixture
def store(lending: PgBouncer, raw: psycopg.Connection) -> Iterator[PostgresStore]:
    with closing(PostgresStore(lending.url)) as some:
        yield some


def left_behind(url: str) -> list[tuple[Any, ...]]:
    """What is set on the server's connections, which others will be lent."""
    asked = (
        "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), "
        "current_setting('idle_in_transaction_session_timeout'), current_setting('jit'), "
        "ARRAY(SELECT pg_listening_channels()), (SELECT count(*) FROM pg_prepared_statements), "
        "pg_backend_pid()"
    )
    with ExitStack() as stack:
        every = [stack.enter_context(psycopg.connect(url)) for _ in range(POOL)]
        rows = [each.execute(asked, prepare=False).fetchone() for each in every]
    assert len({row[-1] for row in rows if row}) == POOL, "not all of them were seen"
    return sorted({tuple(map(str, row[:-1])) for row in rows if row})


NOTHING = [("0", "0", "0", "on", "[]", "0")]


def lend_what_listens(url: str) -> None:
    """Keep all connections of the server but those that listen, so that these are lent next.

    A busy pool does so in time; one at rest may lend the same other one again and again.
    """
    with ExitStack() as stack:
        every = [stack.enter_context(psycopg.connect(url)) for _ in range(POOL)]
        asked = "SELECT pg_listening_channels()"
        listen = [each for each in every if each.execute(asked, prepare=False).fetchall()]
        for each in listen:
            each.rollback()
        time.sleep(3 * bell._POLL_SECONDS if listen else 0)


class PooledPlace(Place):
    """A place whose workers and clients reach the store through a pooler."""

    through: str

    @property
    def url(self) -> str:
        return f"{self.through}?schema=life_{self.mark}"


def test_workers_and_clients_live_through_a_transaction_pooler(lending: PgBouncer) -> None:
    PooledPlace.through = lending.url
    place = PooledPlace.make(Case(BEST, "postgres"))
    try:
        worker = place.worker()
        jobs = [(quick_sync if n % 5 == 0 else quick).enqueue(n) for n in range(40)]
        assert [job.result(timeout=30) for job in jobs] == list(range(40))
        place.until(lambda: "does not pass notifications on" in worker.log, 10)
        # Nobody rings, so it looks; that is soon enough.
        began = time.monotonic()
        assert quick.enqueue(1).result(timeout=30) == 1
        assert time.monotonic() - began < 5
        victim = worker
        worker = place.worker()
        victim.kill_tree()
        assert quick.enqueue(2).result(timeout=30) == 2
        place.stop()
        assert_no_orphans(place)
        assert place.store.invariants() == ()
        assert "Traceback" not in worker.log
    finally:
        place.clear()
    assert left_behind(lending.url) == NOTHING


def test_many_at_once_share_few_connections_and_leave_nothing_in_them(
    lending: PgBouncer, store: PostgresStore
) -> None:
    add(store, queue="first")
    failed: list[BaseException] = []

    def live() -> None:
        try:
            with closing(PostgresStore(lending.url)) as own:
                for _ in range(5):
                    jobs = add_many(own, 4)
                    own.enqueue([new_job()], caps={"default": 10_000})
                    holder = Holder(own)
                    leases = [each.lease for each in holder.claim(4)]
                    holder.renew()
                    holder.settle(*(Complete(lease, "1") for lease in leases[:2]))
                    holder.settle(*(Fail(lease, BOOM) for lease in leases[2:3]))
                    own.end(holder.id, Drained())
                    own.recover(holder.id)
                    own.cancel(jobs[-1])
                    own.promote()
                    own.queues()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=live) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert store.invariants() == ()
    assert left_behind(lending.url) == NOTHING


def test_client_that_stops_in_a_transaction_is_cut_off_through_the_pooler(
    store: PostgresStore, lending: PgBouncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_IDLE_MS", 300)
    add(store)
    holder = Holder(store)
    holder.take(begin=True)
    stopped, goes_on = threading.Event(), threading.Event()

    def freeze() -> None:
        def verb(tx: Any) -> None:
            tx.call("open", holder.id, None)
            stopped.set()
            goes_on.wait(60)
            tx.call("open", holder.id, None)

        with closing(PostgresStore(lending.url)) as frozen, pytest.raises(StoreUnavailable):
            frozen._db.write(verb)

    thread = threading.Thread(target=freeze)
    thread.start()
    try:
        assert stopped.wait(30)
        assert store.end(holder.id, Drained())
        assert store.recover(holder.id).ready == 1
    finally:
        goes_on.set()
        thread.join()


def test_lock_of_somebody_else_is_not_waited_for_for_ever(
    server: PostgresServer, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_LOCK_MS", 200)
    add(store)
    with psycopg.connect(server.url) as holder:
        holder.execute("LOCK TABLE limpet.job IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreBusy, match="pg_stat_activity"):
            add(store)
    add(store)


@pytest.mark.parametrize("known_before", [True, False])
def test_bell_behind_a_transaction_pooler_rings_by_the_clock(
    store: PostgresStore,
    lending: PgBouncer,
    known_before: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if not known_before:  # as in a busy pool, where the same connection comes back by chance
        monkeypatch.setattr(bell.Ringer, "_is_lent", lambda *_: False)
        monkeypatch.setattr(bell, "_PROBE_SECONDS", 0.5)
    add(store)
    with caplog.at_level(logging.WARNING, "limpet.store"), closing(store.listen(Topic.READY)) as it:
        assert it.wait(timedelta(seconds=10))
        assert it.wait(timedelta(seconds=10))
    assert caplog.text.count("does not pass notifications on") == 1
    lend_what_listens(lending.url)
    assert left_behind(lending.url) == NOTHING


def test_bell_behind_a_session_pooler_is_heard(
    folder: Path, server: PostgresServer, raw: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        pooler(folder, server, mode="session", default_pool_size="10") as keeping,
        closing(PostgresStore(keeping.url)) as store,
        caplog.at_level(logging.WARNING, "limpet.store"),
    ):
        add(store)
        with closing(store.listen(Topic.READY)) as ring:
            time.sleep(bell._PROBE_SECONDS + 0.5)
            ring.wait(timedelta(0))
            assert not ring.wait(timedelta(seconds=1))
            job = add(store)
            assert ring.wait(timedelta(seconds=10))
        assert "notifications" not in caplog.text
        holder = Holder(store)
        holder.claim()
        assert get(store, job).state is State.RUNNING
        assert store.invariants() == ()


def test_pooler_that_is_full_is_said(
    folder: Path, server: PostgresServer, raw: psycopg.Connection
) -> None:
    with pooler(folder, server, max_client_conn="2") as small, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(psycopg.connect(small.url))
        with (
            closing(PostgresStore(small.url)) as store,
            pytest.raises(StoreUnavailable, match="no connection left"),
        ):
            add(store)


def test_what_the_pooler_refuses_is_said(
    folder: Path, server: PostgresServer, raw: psycopg.Connection, lending: PgBouncer
) -> None:
    with (
        closing(PostgresStore(f"{lending.url}?options=-c%20jit%3Doff")) as store,
        pytest.raises(StoreUnavailable, match="unsupported startup parameter: options"),
    ):
        add(store)
    with (
        pooler(folder, server, mode="statement") as short,
        closing(PostgresStore(short.url)) as store,
        pytest.raises(StoreUnavailable, match="not allowed in statement pooling mode"),
    ):
        add(store)


@pytest.fixture
def app(lending: PgBouncer, raw: psycopg.Connection) -> Iterator[App]:
    made = App(lending.url)
    made.client.store.migrate()
    yield made
    made.close()


# The driver prepares what was said five times.
ROUNDS = 8


def task_of(app: App) -> Any:
    @app.task
    def send(n: int) -> None: ...

    return send


def test_job_within_a_transaction_of_psycopg(app: App, lending: PgBouncer) -> None:
    send = task_of(app)
    # What the user says is the user's; what is said for a job is never prepared, however often.
    with ExitStack() as stack:
        every = [stack.enter_context(psycopg.connect(lending.url)) for _ in range(2 * POOL)]
        for number in range(ROUNDS):
            for connection in every:
                kept = send.enqueue(number, within=connection)
                connection.commit()
                assert kept.state is State.READY
        for connection in every:
            lost = send.enqueue(0, within=connection)
            connection.rollback()
            assert app.client.store.job(lost.id) is None
    assert left_behind(lending.url) == NOTHING


def test_job_within_a_transaction_that_is_awaited(app: App, lending: PgBouncer) -> None:
    send = task_of(app)

    async def with_psycopg() -> None:
        async with await psycopg.AsyncConnection.connect(lending.url) as connection:
            for number in range(ROUNDS):
                kept = await send.aenqueue(number, within=connection)
                await connection.commit()
                assert kept.state is State.READY
            lost = await send.aenqueue(0, within=connection)
            await connection.rollback()
            assert app.client.store.job(lost.id) is None

    async def with_asyncpg() -> None:
        # As asyncpg's own documentation says for a transaction pooler.
        connection = await asyncpg.connect(lending.url, statement_cache_size=0)
        for number in range(ROUNDS):
            async with connection.transaction():
                kept = await send.aenqueue(number, within=connection)
            transaction = connection.transaction()
            await transaction.start()
            lost = await send.aenqueue(number, within=connection)
            await transaction.rollback()
            assert kept.state is State.READY
            assert app.client.store.job(lost.id) is None
        await connection.close()

    async def both() -> None:
        # Not more: each may hold a connection of the server while the loop waits for another one.
        await asyncio.gather(with_psycopg(), with_asyncpg())
        await asyncio.gather(with_psycopg(), with_psycopg())

    asyncio.run(both())
    assert left_behind(lending.url) == NOTHING
