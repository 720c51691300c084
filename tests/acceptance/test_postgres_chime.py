"""How PostgreSQL's bells are rung: with the commit if nobody waits for that, and once for many."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from contract.driver import BOOM, EVERY_BACKEND, Holder, add, new_job

from limpet.domain.cause import Drained
from limpet.domain.job import NewJob
from limpet.domain.transition import Complete, Fail
from limpet.storage.contract.answers import Receipt
from limpet.storage.postgres.chime import _PAUSE_SECONDS
from limpet.storage.postgres.enqueue import enqueue as write
from limpet.storage.postgres.store import PostgresStore
from limpet.storage.postgres.transaction import Transaction

READY, DONE = '"limpet".ready', '"limpet".done'
_PATIENCE_SECONDS = 20.0

ENQUEUE_AND_EXIT = """
import sys
from limpet.domain.job import NewJob
from limpet.storage.postgres.store import PostgresStore
kept = PostgresStore(sys.argv[1])
kept.enqueue([NewJob("0" * 26, "task", "{}")])
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return EVERY_BACKEND["postgres"](tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as store:
        yield store


@pytest.fixture
def ears(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        for channel in (READY, DONE):
            connection.execute(f'LISTEN "{channel.replace(chr(34), chr(34) * 2)}"'.encode())
        yield connection


def heard(ears: psycopg.Connection) -> list[str]:
    """What is heard next, and what has come with it."""
    told = [each.channel for each in ears.notifies(timeout=_PATIENCE_SECONDS, stop_after=1)]
    return told + [each.channel for each in ears.notifies(timeout=0)]


def test_a_lone_commit_rings_itself(
    store: PostgresStore, ears: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store._db._chime, "request", pytest.fail)
    add(store)
    assert heard(ears) == [READY]
    add(store, scheduled_for=2**52)
    assert list(ears.notifies(timeout=0.1)) == []


def test_a_commit_that_would_wait_for_another_that_rings_does_not_ring_itself(
    store: PostgresStore, ears: psycopg.Connection
) -> None:
    asked: list[bool] = []

    def enqueue(tx: Transaction, job: NewJob) -> list[Receipt]:
        told = write(tx, [job])
        asked.append(bool(tx.rings))
        return told

    def may_ring(connection: psycopg.Connection) -> Transaction:
        return Transaction(connection, store._location, None, may_ring=lambda: True)

    with closing(store._db.connect()) as one, closing(store._db.connect()) as other:
        store.info()
        with one.transaction():
            enqueue(may_ring(one), new_job())
            enqueue(may_ring(other), new_job())  # is committed while the first one rings
            assert asked == [False, True]
        enqueue(may_ring(other), new_job())
    assert asked == [False, True, False]
    add(store)
    assert READY in heard(ears)


def test_what_is_ready_and_what_is_done_is_rung_for(
    store: PostgresStore, ears: psycopg.Connection
) -> None:
    holder = Holder(store)
    add(store)
    assert heard(ears) == [READY]
    holder.settle(Complete(holder.take()))
    assert heard(ears) == [DONE]
    add(store)
    assert heard(ears) == [READY]
    lease = holder.take()
    holder.release(lease, cause=Drained())
    assert heard(ears) == [READY]
    holder.settle(Fail(holder.take(), BOOM))
    assert heard(ears) == [DONE]
    # The answer was lost, perhaps before it was rung: the repeat rings.
    store.exchange(holder.id, holder.seq)
    assert heard(ears)[0] in (DONE, READY)


def test_many_are_rung_for_at_once(store: PostgresStore, ears: psycopg.Connection) -> None:
    began = time.monotonic()
    for _ in range(300):
        store.enqueue([new_job()])
    store.close()
    most = 2 + (time.monotonic() - began) / _PAUSE_SECONDS
    told = list(ears.notifies(timeout=0))
    assert 1 <= len(told) <= most


def test_who_leaves_at_once_has_rung(url: str, ears: psycopg.Connection) -> None:
    subprocess.run([sys.executable, "-c", ENQUEUE_AND_EXIT, url], check=True, timeout=60)
    assert heard(ears) == [READY]
