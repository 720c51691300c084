"""A store that was made before the first release is refused and left as it is, by every way to it.

Its versions counted otherwise, and may be the same number as one of today: what tells it is the
name under which it keeps that number.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg
import pytest
import redis
from acceptance.command import Run
from acceptance.moving import fresh_stores, fresh_url
from contract.driver import add, new_job

from limpet.domain.errors import SchemaMismatch
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

SENTENCE = (
    "was made by an unreleased version of Limpet; this one can neither use it nor bring it up to "
    "date, and changed nothing. Finish its jobs with the version that made it, or name a new store."
)
# Version, oldest and newest allowed: as today's, as the last that was made, as nobody made any.
STAMPS = [(1, 1, 1), (8, 7, 8), (99, 99, 99)]


class Old(NamedTuple):
    """A store of before, with a job, and a way to read all that is in it."""

    kind: str
    url: str
    read: Callable[[], Any]


def _sqlite(url: str, stamp: tuple[int, int, int]) -> Callable[[], Any]:
    path = url.removeprefix("sqlite:///").partition("?")[0]
    with closing(apsw.Connection(path)) as raw:
        raw.execute("ALTER TABLE limpet_store RENAME COLUMN version TO schema_version")
        raw.execute(
            "UPDATE limpet_store SET schema_version = ?, oldest_allowed = ?, newest_allowed = ?",
            stamp,
        )

    def read() -> Any:
        with closing(apsw.Connection(path)) as raw:
            schema = raw.execute(
                "SELECT name, type, sql FROM sqlite_schema ORDER BY name"
            ).fetchall()
            tables = [name for name, kind, _ in schema if kind == "table"]
            return schema, [raw.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables]

    return read


def _postgres(url: str, stamp: tuple[int, int, int]) -> Callable[[], Any]:
    server, _, schema = url.partition("?schema=")
    with psycopg.connect(server, autocommit=True) as raw:
        raw.execute(f"ALTER TABLE {schema}.store RENAME COLUMN version TO schema_version".encode())
        raw.execute(
            f"UPDATE {schema}.store SET schema_version = %s, oldest_allowed = %s, "
            f"newest_allowed = %s".encode(),
            stamp,
        )
        # Its functions were written by the same release, and are others.
        raw.execute(f"COMMENT ON FUNCTION {schema}.v1_time(bigint) IS '0.1.0 x'".encode())

    def read() -> Any:
        with psycopg.connect(server, autocommit=True) as raw:
            return [
                raw.execute(text.encode()).fetchall()
                for text in (
                    f"SELECT * FROM {schema}.store",
                    f"SELECT * FROM {schema}.job_view",
                    f"SELECT obj_description('{schema}.v1_time(bigint)'::regprocedure)",
                )
            ]

    return read


def _redis(url: str, stamp: tuple[int, int, int]) -> Callable[[], Any]:
    server, _, namespace = url.partition("?namespace=")
    key = f"{{{namespace}}}:store"
    with redis.Redis.from_url(server) as raw:
        raw.hdel(key, "version", "store_epoch")
        raw.hset(key, "founded", "epoch")
        names = ("schema_version", "oldest_allowed", "newest_allowed")
        raw.hset(key, mapping=dict(zip(names, stamp, strict=True)))

    def read() -> Any:
        with redis.Redis.from_url(server) as raw:
            keys = sorted(raw.scan_iter(match=f"{{{namespace}}}:*"))
            return [(each, raw.dump(each)) for each in keys]

    return read


_MAKE = {"sqlite": _sqlite, "postgres": _postgres, "redis": _redis}


@pytest.fixture(params=_MAKE)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=STAMPS, ids=lambda stamp: f"schema{stamp[0]}")
def old(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Iterator[Old]:
    url = fresh_url(kind, tmp_path)
    with fresh_stores(tmp_path) as make:
        store = make(kind, url=url)
        add(store)
        store.close()
        yield Old(kind, url, _MAKE[kind](url, request.param))


USES: dict[str, Callable[[Store], object]] = {
    "write": add,
    "read": lambda store: store.queues(),
    "migrate": lambda store: store.migrate(),
    "fsck": lambda store: store.invariants(),
    "repair": lambda store: store.repair_store(),
    "move": lambda store: store.relocation(),
    "sweep": lambda store: store.promote(),
}


def test_store_of_before_the_first_release_is_refused_and_stays_as_it_is(old: Old) -> None:
    before = old.read()
    for use in USES.values():
        with closing(open_store(old.url)) as store:
            for _ in range(2):
                with pytest.raises(SchemaMismatch) as caught:
                    use(store)
                assert str(caught.value).endswith(SENTENCE)
    assert old.read() == before


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])  # on Redis there is no such transaction
def test_transaction_of_a_user_in_a_store_of_before_is_refused(old: Old) -> None:
    before = old.read()
    place = old.url.partition("?")[0]
    connection: apsw.Connection | psycopg.Connection
    if old.kind == "sqlite":
        connection = apsw.Connection(place.removeprefix("sqlite:///"))
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection = psycopg.connect(place)
    with closing(connection), closing(open_store(old.url)) as store:
        with pytest.raises(SchemaMismatch) as caught:
            store.enqueue_within(connection, [new_job("x")])
        assert str(caught.value).endswith(SENTENCE)
    assert old.read() == before


@pytest.mark.parametrize("old", STAMPS[:1], ids=["schema1"], indirect=True)
def test_commands_name_what_to_do_with_a_store_of_before(old: Old, limpet: Run) -> None:
    before = old.read()
    for words in (("migrate",), ("fsck",), ("fsck", "--repair"), ("worker", "shop:app")):
        done = limpet(*words, "--url", old.url, app=None)
        assert done.returncode != 0, words
        assert SENTENCE in " ".join(done.stderr.split()), words
        assert "Traceback" not in done.stderr
    assert old.read() == before


def test_other_name_space_beside_a_store_of_before_is_used(old: Old) -> None:
    beside = {
        "sqlite": old.url + "&namespace=beside",
        "postgres": old.url + "_beside",
        "redis": old.url + "-beside",
    }[old.kind]
    before = old.read()
    try:
        with closing(open_store(beside)) as store:
            store.migrate()
            add(store)
            assert store.invariants() == ()
    finally:
        if old.kind == "postgres":
            server, _, schema = beside.partition("?schema=")
            with psycopg.connect(server, autocommit=True) as raw:
                raw.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())
    if old.kind != "sqlite":  # there the tables of both are in one file
        assert old.read() == before


def test_tables_of_somebody_else_are_not_taken_for_a_store_of_before(tmp_path: Path) -> None:
    url = fresh_url("postgres", tmp_path)
    server, _, schema = url.partition("?schema=")
    with psycopg.connect(server, autocommit=True) as raw:
        raw.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.store (goods text)".encode())
        try:
            with closing(open_store(url)) as store, pytest.raises(SchemaMismatch) as caught:
                add(store)
            assert "unreleased" not in str(caught.value)
        finally:
            raw.execute(f"DROP SCHEMA {schema} CASCADE".encode())
