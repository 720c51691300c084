"""PostgreSQL while another's transaction is open: who waits for whom, and what is missed."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from contract.driver import BACKENDS, Holder, add, new_id

from limpet.domain.cause import Drained
from limpet.storage.postgres import exchange, session
from limpet.storage.postgres.store import PostgresStore
from limpet.storage.postgres.transaction import Transaction

_PATIENCE_SECONDS = 30
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return BACKENDS["postgres"](tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as store:
        yield store
        assert store.invariants() == ()


@pytest.fixture
def raw(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@contextmanager
def uncommitted(store: PostgresStore) -> Iterator[Transaction]:
    """A transaction that is open as long as the block lasts, and is then committed."""
    with closing(store._db.connect()) as connection:
        connection.execute("SET idle_in_transaction_session_timeout = 0")
        with connection.transaction():
            yield store._db._tx(connection)


def begin(step: Callable[[], object], raw: psycopg.Connection) -> threading.Thread:
    """Begin a step beside, and come back when it is done or waits for a lock."""
    thread = threading.Thread(target=step)
    thread.start()
    until = time.monotonic() + _PATIENCE_SECONDS
    while thread.is_alive() and raw.execute(_WAITING).fetchone() == (0,):
        assert time.monotonic() < until
        thread.join(0.005)
    return thread


def test_tasks_of_a_session_that_begins_are_not_forgotten_with_an_old_one(
    store: PostgresStore, raw: psycopg.Connection
) -> None:
    old = Holder(store, ["a", "b"])
    store.end(old.id, Drained())
    raw.execute("UPDATE limpet.session SET ended_at = 0")
    new = replace(old.new, id=new_id())
    with uncommitted(store) as tx:
        session.register(tx, new)
        prune = begin(lambda: store.prune({}), raw)
    prune.join()
    assert [each.id for each in store.sessions(with_dead=True)] == [new.id]
    job = add(store, "a")
    assert Holder(store, ["a", "b"], session=new.id).claim_ids() == [job]


def test_claimers_of_several_tasks_are_given_what_others_do_not_take(store: PostgresStore) -> None:
    jobs = {add(store, task) for _ in range(40) for task in ("a", "b")}
    Holder(store).claim(0)  # so that the store knows its server
    holders = [Holder(store, ["a", "b"]) for _ in range(5)]
    taken: list[str] = []
    with ExitStack() as others:
        for holder in holders:
            tx = others.enter_context(uncommitted(store))
            claimed = exchange._call(tx, holder.id, 1, (), holder.want(15), ()).claimed
            assert len(claimed) == 15
            taken += [job.lease.job for job in claimed]
        assert Holder(store, ["b"]).claim_ids(5) != []  # from one line, past all of them
    assert len(set(taken)) == len(taken)
    assert set(taken) < jobs
    assert taken[:15] == sorted(jobs)[:15]
