"""The tally of PostgreSQL, which counts every move, is kept short."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from contract.driver import EVERY_BACKEND, add

from limpet.storage.postgres.store import PostgresStore


@pytest.fixture(params=["postgres", "postgres15"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return EVERY_BACKEND[request.param](tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as store:
        yield store


@pytest.fixture
def raw(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def test_tally_is_folded_and_counts_the_same(raw: psycopg.Connection, store: PostgresStore) -> None:
    for _ in range(300):
        store.cancel(add(store))
    before = store.totals()
    store.promote()
    row = raw.execute("SELECT count(*) FROM limpet.tally").fetchone()
    assert row is not None
    assert row[0] < 200  # of 600; fewer are not worth it, and who enqueues may have begun
    assert store.totals() == before
    assert store.invariants() == ()


def test_tally_of_very_many_queues_is_folded_too(
    raw: psycopg.Connection, store: PostgresStore
) -> None:
    raw.execute(
        "INSERT INTO limpet.tally SELECT 'q' || n % 7500, 'complete', NULL, NULL, 1 "
        "FROM generate_series(1, 30000) n"
    )
    for _ in range(300):  # each time it is one of ten
        store.promote()
        row = raw.execute("SELECT count(*), sum(jobs) FROM limpet.tally").fetchone()
        if row == (7_500, 30_000):
            return
    pytest.fail("it is never folded")
