"""The schema of a PostgreSQL store: who makes it, which will do, and what it is called."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta

import psycopg
import pytest
from acceptance.postgres_place import open_folder, raw_and_empty, running
from contract.driver import add, get
from servers.postgres import PostgresServer

from limpet.domain.errors import SchemaMismatch
from limpet.domain.state import State
from limpet.storage.contract.bell import Topic
from limpet.storage.postgres import schema
from limpet.storage.postgres.store import PostgresStore
from limpet.storage.registry import open_store, same_store


@pytest.fixture(scope="module", params=[15, 18])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    with (
        open_folder() as folder,
        running(PostgresServer(folder / "server", version=request.param)) as started,
    ):
        yield started


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.url


@pytest.fixture
def raw(server: PostgresServer) -> Iterator[psycopg.Connection]:
    with raw_and_empty(server) as connection:
        yield connection


@pytest.fixture
def store(url: str, raw: psycopg.Connection) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as store:
        yield store


def test_two_that_migrate_at_once_make_one_schema(url: str, raw: psycopg.Connection) -> None:
    made: list[tuple[str, ...]] = []
    gate = threading.Barrier(4)

    def migrate() -> None:
        with closing(PostgresStore(url)) as store:
            gate.wait()
            made.append(store.migrate())

    threads = [threading.Thread(target=migrate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, made)) == [0, 0, 0, len(schema.migrations())]


def test_schema_of_another_version_is_refused(
    url: str, raw: psycopg.Connection, store: PostgresStore
) -> None:
    store.migrate()
    raw.execute("UPDATE limpet.store SET oldest_allowed = 9, newest_allowed = 9")
    with closing(PostgresStore(url)) as other, pytest.raises(SchemaMismatch, match="newer"):
        add(other)
    raw.execute("UPDATE limpet.store SET oldest_allowed = 0, newest_allowed = 0")
    with closing(PostgresStore(url)) as other, pytest.raises(SchemaMismatch, match="older"):
        add(other)


def test_schema_has_the_name_that_the_url_says(
    url: str, raw: psycopg.Connection, store: PostgresStore
) -> None:
    named = f"{url}?schema=jobs_2"
    with closing(open_store(named)) as other:
        ring = store.listen(Topic.READY)
        job = add(other)
        assert get(other, job).state is State.READY
        assert not ring.wait(timedelta(milliseconds=200))
        ring.close()
        assert store.job(job) is None
        assert other.info().url.endswith("?schema=jobs_2")
    raw.execute("DROP SCHEMA jobs_2 CASCADE")
    assert not same_store(named, url)
    assert same_store(f"{url}?sslmode=disable", url)


def test_calls_that_the_server_keeps_survive_the_tables_being_made_anew(
    store: PostgresStore, raw: psycopg.Connection
) -> None:
    add(store)
    raw.execute("DROP SCHEMA limpet CASCADE")
    with suppress(SchemaMismatch):
        add(store)
    add(store)
    assert get(store, add(store)).state is State.READY


def test_many_that_find_no_tables_at_the_same_time_make_them_once(
    url: str, raw: psycopg.Connection
) -> None:
    for _ in range(4):
        stores = [PostgresStore(url) for _ in range(4)]
        with ThreadPoolExecutor(len(stores)) as callers:
            jobs = list(callers.map(add, stores))
        assert len(set(jobs)) == len(stores)
        for store in stores:
            store.close()
        raw.execute("DROP SCHEMA limpet CASCADE")
