"""What the PostgreSQL store says, and what it goes on doing, when its server is wrong or gone."""

import logging
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from itertools import pairwise

import psycopg
import pytest
from acceptance.postgres_place import open_folder, raw_and_empty, running
from contract.driver import Holder, add, add_many, get
from psycopg.errors import LockNotAvailable
from servers.postgres import PostgresServer
from servers.process import free_port

from limpet.domain.cause import Drained
from limpet.domain.errors import (
    StoreBusy,
    StoreReadOnly,
    StoreRefused,
    StoreRolledBack,
    StoreUnavailable,
    StoreUnreachable,
)
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.bell import Topic
from limpet.storage.postgres import bell, database, info
from limpet.storage.postgres.store import PostgresStore
from limpet.storage.postgres.transaction import Transaction


@pytest.fixture(scope="module", params=[15, 18])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    with open_folder() as folder:
        server = PostgresServer(
            folder / "server", version=request.param, max_connections="12",
            superuser_reserved_connections="1",
        )  # fmt: skip
        with running(server) as started:
            yield started


@pytest.fixture
def raw(server: PostgresServer) -> Iterator[psycopg.Connection]:
    with raw_and_empty(server) as connection:
        yield connection


@pytest.fixture
def store(server: PostgresServer, raw: psycopg.Connection) -> Iterator[PostgresStore]:
    with closing(PostgresStore(server.url)) as store:
        yield store


def test_server_that_is_not_there_is_said_quickly() -> None:
    began = time.monotonic()
    with closing(PostgresStore(f"postgresql://postgres@127.0.0.1:{free_port()}/x")) as store:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            add(store)
        with pytest.raises(StoreUnavailable):
            store.listen(Topic.READY)
    assert time.monotonic() - began < 5


def test_database_that_is_not_there_is_said(server: PostgresServer) -> None:
    url = f"postgresql://postgres@127.0.0.1:{server.port}/nowhere"
    with closing(PostgresStore(url)) as store, pytest.raises(StoreUnavailable, match="createdb"):
        add(store)


def test_wrong_password_is_said_and_not_shown(
    server: PostgresServer, raw: psycopg.Connection
) -> None:
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    raw.execute("DROP ROLE IF EXISTS guarded; CREATE ROLE guarded LOGIN PASSWORD 'right'")
    rules.write_text("host all guarded 127.0.0.1/32 scram-sha-256\n" + before)
    raw.execute("SELECT pg_reload_conf()")
    time.sleep(0.3)
    try:
        url = f"postgresql://guarded:wr0ng@127.0.0.1:{server.port}/postgres"
        refusal = pytest.raises(StoreRefused, match="user and the password")
        with closing(PostgresStore(url)) as store, refusal as refused:
            add(store)
        assert "wr0ng" not in str(refused.value)
    finally:
        rules.write_text(before)
        raw.execute("SELECT pg_reload_conf()")


def test_too_many_connections_are_said_and_not_for_ever(
    server: PostgresServer, store: PostgresStore
) -> None:
    others = []
    with suppress(psycopg.OperationalError):
        while True:
            others.append(psycopg.connect(server.url))
    with pytest.raises(StoreUnavailable, match="no connection left"):
        add(store)
    for other in others:
        other.close()
    time.sleep(0.2)
    add(store)


def test_store_that_may_only_be_read_is_said(
    server: PostgresServer, raw: psycopg.Connection, store: PostgresStore
) -> None:
    store.migrate()
    job = add(store)
    raw.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
    try:
        with closing(PostgresStore(server.url)) as standby:
            assert get(standby, job).state is State.READY
            with pytest.raises(StoreReadOnly, match="standby"):
                add(standby)
    finally:
        raw.execute("SET default_transaction_read_only = off")
        raw.execute("ALTER DATABASE postgres RESET default_transaction_read_only")


def test_connection_that_was_cut_is_replaced(raw: psycopg.Connection, store: PostgresStore) -> None:
    add(store)
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'limpet'"
    raw.execute(cut)
    job = add(store)
    assert get(store, job).state is State.READY


def test_server_that_comes_back_is_used_again(server: PostgresServer, store: PostgresStore) -> None:
    job = add(store)
    ring = store.listen(Topic.READY)
    server.stop()
    with pytest.raises(StoreUnavailable):
        add(store)
    server.start()
    assert get(store, job).state is State.READY
    assert ring.wait(timedelta(seconds=15))  # once, for what was missed
    time.sleep(0.3)
    ring.wait(timedelta(0))
    add(store)
    assert ring.wait(timedelta(seconds=10))
    ring.close()


def test_lock_of_somebody_else_is_said(
    server: PostgresServer, raw: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_LOCK_MS", 200)
    with closing(PostgresStore(server.url)) as store:
        add(store)
        with psycopg.connect(server.url) as holder:
            holder.execute("LOCK TABLE limpet.job IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StoreBusy, match="pg_stat_activity"):
                add(store)
        add(store)


def test_frozen_client_in_a_transaction_is_cut_off(
    server: PostgresServer, raw: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_IDLE_MS", 300)
    with closing(PostgresStore(server.url)) as store:
        add(store)
        holder = Holder(store)
        holder.take(begin=True)
        frozen = store._db.connect()
        frozen.execute("BEGIN")
        frozen.execute("SELECT * FROM limpet.v1_open(%s, NULL)", [holder.id])
        began = time.monotonic()
        assert store.end(holder.id, Drained())
        assert store.recover(holder.id).ready == 1
        assert time.monotonic() - began < 3
        frozen.close()


def test_store_that_was_rolled_back_is_noticed(
    raw: psycopg.Connection, store: PostgresStore
) -> None:
    add(store)
    holder = Holder(store)
    holder.claim(0)
    raw.execute("CREATE TABLE limpet.old AS SELECT * FROM limpet.hold")
    holder.take()
    raw.execute(
        "UPDATE limpet.hold h SET seq = o.seq FROM limpet.old o WHERE o.session = h.session"
    )
    with pytest.raises(StoreRolledBack, match="the last one in the store is 1"):
        holder.exchange()
    raw.execute("DELETE FROM limpet.hold; DELETE FROM limpet.session; DROP TABLE limpet.old")
    with pytest.raises(StoreRolledBack, match="does not know"):
        holder.renew()
    with pytest.raises(StoreRolledBack, match="does not know"):
        holder.exchange()


def test_old_snapshot_is_told(
    server: PostgresServer, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store)
    monkeypatch.setattr(info, "_OLD_SNAPSHOT_SECONDS", 0)
    with psycopg.connect(server.url) as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1 FROM limpet.job")
        time.sleep(0.1)
        assert f"process {old.info.backend_pid} has been open" in store.info().durability


def test_old_snapshot_is_logged_by_whoever_promotes(
    server: PostgresServer,
    store: PostgresStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    add(store)
    monkeypatch.setattr(info, "_OLD_SNAPSHOT_SECONDS", 0)
    monkeypatch.setattr(store, "_next_look", 0.0)
    with psycopg.connect(server.url) as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1 FROM limpet.job")
        time.sleep(0.1)
        store.promote()
        store.promote()
    assert caplog.text.count("keeps finished rows from being cleaned away") == 1


def test_old_snapshot_does_not_make_claims_step_over_more_and_more(
    server: PostgresServer, raw: psycopg.Connection, store: PostgresStore
) -> None:
    holder = Holder(store, lease=timedelta(minutes=5))
    count = "SELECT pg_stat_get_tuples_returned('limpet.ready_line'::regclass)"

    def stepped() -> int:
        raw.execute("SELECT pg_stat_clear_snapshot()")
        row = raw.execute(count).fetchone()
        assert row is not None
        return int(row[0])

    with psycopg.connect(server.url) as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1 FROM limpet.job")
        for _ in range(20):
            add_many(store, 1_000)
        leases = []
        for _ in range(18):
            leases = [each.lease for each in holder.claim(1_000)]
            assert holder.settle(*(Complete(lease) for lease in leases)) == ()
        before, began = stepped(), time.monotonic()
        for _ in range(40):
            assert len(holder.claim(10)) == 10
        # A look at the line steps over 18,000. There is one in a tenth of a second at most, not one
        # for each claim; on a busy machine that may be more than half of them.
        looks = max(20.0, (time.monotonic() - began) / 0.1)
        time.sleep(1.2)
        assert stepped() - before < min(looks, 38) * 18_000

        # Nor where there is little to do, and every claim comes to the end of the line.
        while holder.claim(1_000):
            pass
        until = "SELECT lines_until FROM limpet.hold"
        read = set()
        for _ in range(40):
            job = add(store)
            assert holder.claim_ids() == [job]
            read.update(raw.execute(until).fetchall())
        times = sorted(at for (at,) in read)
        assert all(later - at >= 100_000 for at, later in pairwise(times))
    assert store.invariants() == ()


def test_durability_is_told_as_it_is_set(server: PostgresServer, store: PostgresStore) -> None:
    add(store)
    told = store.info()
    assert "fsync=off" in told.durability
    assert "may destroy everything" in told.durability
    assert told.engine.startswith("PostgreSQL 1")


def test_bell_that_a_pooler_makes_deaf_rings_by_the_clock(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # As behind a transaction pooler: LISTEN is taken, and nothing is ever told.
    monkeypatch.setattr(bell.Ringer, "_open", lambda ringer: ringer._database.connect())
    monkeypatch.setattr(bell, "_PROBE_SECONDS", 0.3)
    add(store)
    with caplog.at_level(logging.WARNING, "limpet.store"):
        ring = store.listen(Topic.READY)
        assert ring.wait(timedelta(seconds=5))
        assert ring.wait(timedelta(seconds=5))
    assert "does not pass notifications on" in caplog.text
    ring.close()


def test_connections_of_a_role_that_are_all_in_use_do_not_end_a_worker(
    server: PostgresServer, raw: psycopg.Connection, store: PostgresStore
) -> None:
    store.migrate()
    raw.execute("DROP ROLE IF EXISTS narrow")
    raw.execute("CREATE ROLE narrow LOGIN CONNECTION LIMIT 0")
    try:
        url = f"postgresql://narrow@127.0.0.1:{server.port}/postgres"
        refusal = pytest.raises(StoreUnreachable, match="no connection left")
        with closing(PostgresStore(url)) as other, refusal:
            other.queues()
    finally:
        raw.execute("DROP ROLE narrow")


def test_connections_to_a_server_that_became_a_standby_are_given_up(store: PostgresStore) -> None:
    add(store)
    (idle,) = store._db._pools[False]._idle
    idle.execute("SET default_transaction_read_only = on")
    add(store)
    assert idle.closed


def test_what_may_have_been_written_is_not_denied(store: PostgresStore) -> None:
    add(store)
    tries: list[int] = []

    def verb(tx: Transaction) -> None:
        tries.append(1)
        if len(tries) == 1:
            tx.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        raise LockNotAvailable("timeout")

    with pytest.raises(StoreBusy, match="may have been written") as told:
        store._db.once(verb)
    assert "nothing was written" not in str(told.value)
    with pytest.raises(StoreBusy, match="nothing was written"):
        store._db.once(verb)


def test_calls_that_somebody_between_has_forgotten_are_said_anew(
    store: PostgresStore, raw: psycopg.Connection
) -> None:
    """As a proxy does that gives the server's connection to others, and shows its number."""
    for _ in range(3):
        add(store)
    idle = store._db._pools[False]._idle
    assert idle
    for connection in idle:
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() != (0,)
        connection.execute("DEALLOCATE ALL")
    add(store)
    assert raw.execute("SELECT count(*) FROM limpet.ready").fetchone() == (4,)
