"""How PostgreSQL's bells are rung: after the commit, and once for many."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from contract.driver import BACKENDS, BOOM, Holder, add, new_job

from limpet.domain.cause import Drained
from limpet.domain.transition import Complete, Fail
from limpet.storage.postgres.chime import _PAUSE_SECONDS
from limpet.storage.postgres.store import PostgresStore
from limpet.storage.postgres.transaction import Transaction

READY, DONE = '"limpet".ready', '"limpet".done'
_PATIENCE_SECONDS = 20.0

ENQUEUE_AND_EXIT = """
import sys
from limpet.domain.job import NewJob
from limpet.storage.postgres.store import PostgresStore
from limpet.storage.postgres.transaction import Transaction
kept = PostgresStore(sys.argv[1])
kept.enqueue([NewJob("0" * 26, "task", "{}")])
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return BACKENDS["postgres"](tmp_path)


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


def test_a_commit_does_not_ring_itself(store: PostgresStore, ears: psycopg.Connection) -> None:
    # It would take turns with every other commit of the server that does.
    add(store)
    assert heard(ears) == [READY]
    with closing(store._db.connect()) as connection:
        call = Transaction(connection, store._location, None).call
        ids, empty = "\x1e" + "7" * 26, [None] * 11
        call(
            "enqueue",
            ids,
            "\x1e1",
            "\x1etask",
            "\x1eq",
            "\x1e{}",
            "\x1e{}",
            *empty,
            None,
            None,
            False,
            False,
        )
    assert list(ears.notifies(timeout=0.3)) == []


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
