"""Migrations on PostgreSQL: nobody waits long for them, and they happen wholly or not at all."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from contract.driver import Holder, add, add_many
from servers import shared_url

from limpet.domain.errors import StoreBusy
from limpet.domain.transition import Complete
from limpet.storage.postgres import schema
from limpet.storage.postgres.store import PostgresStore

STEP = """
ALTER TABLE limpet.job ADD COLUMN note text;
ALTER TABLE limpet.running ADD COLUMN note text;
CREATE TABLE limpet.remark (id text PRIMARY KEY);
"""
NUMBER = schema.NEWEST + 1
# A lock is waited for a fifth of a second; the rest is for a machine that is busy.
LONGEST_SECONDS = 3.0
WATCHED_SECONDS = 2.0


@pytest.fixture
def url() -> Iterator[str]:
    server = shared_url("postgres15")
    name = f"moving_{os.getpid()}"
    yield f"{server}?schema={name}"
    with psycopg.connect(server, autocommit=True) as raw:
        raw.execute("SET client_min_messages = warning")
        raw.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as some:
        some.migrate()
        yield some


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with the migrations of this version and one more."""
    package = tmp_path / "later_postgres"
    shutil.copytree(Path(schema.__file__).parent / "migrations", package / "migrations")
    (package / "__init__.py").touch()
    (package / "migrations" / f"{NUMBER:04}_later.sql").write_text(STEP)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("later_postgres", None)
    return "later_postgres"


def migrate(url: str, package: str) -> list[str]:
    with closing(PostgresStore(url)) as own, closing(own._db.connect()) as connection:
        return schema.apply(connection, own._db.location, None, package)


def in_tables(store: PostgresStore, text: str) -> str:
    return text.replace("limpet.", f"{store._db.location.quoted}.")


def version(store: PostgresStore) -> int:
    return store.info().schema_version


def test_workers_do_not_wait_while_a_migration_waits_for_somebody(
    store: PostgresStore, url: str, later: str
) -> None:
    add_many(store, 500)
    holder = Holder(store)
    done: list[list[str]] = []
    migration = threading.Thread(target=lambda: done.append(migrate(url, later)))
    longest = 0.0
    with closing(store._db.connect()) as reader:
        reader.execute("SET idle_in_transaction_session_timeout = 0")
        reader.execute("BEGIN")
        for table in ("running", "job"):
            reader.execute(in_tables(store, f"SELECT 1 FROM limpet.{table} LIMIT 1").encode())
        migration.start()
        end = time.monotonic() + WATCHED_SECONDS
        while time.monotonic() < end:
            began = time.monotonic()
            leases = [each.lease for each in holder.claim(2)]
            assert holder.settle(*(Complete(lease) for lease in leases)) == ()
            holder.renew()
            add(store)
            longest = max(longest, time.monotonic() - began)
        assert done == []
        assert version(store) == schema.NEWEST
        reader.execute("COMMIT")
    migration.join(30)
    assert done == [[f"{NUMBER:04}_later"]]
    assert longest < LONGEST_SECONDS
    # What was there before goes on, on what is there now.
    assert holder.settle(*(Complete(each.lease) for each in holder.claim(2))) == ()
    assert version(store) == NUMBER
    assert store.invariants() == ()


def test_migration_gives_up_with_a_sentence(
    store: PostgresStore, url: str, later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_RETRY_FOR_SECONDS", 0.3)
    with closing(store._db.connect()) as reader:
        reader.execute("SET idle_in_transaction_session_timeout = 0")
        reader.execute("BEGIN")
        reader.execute(in_tables(store, "SELECT 1 FROM limpet.job").encode())
        with pytest.raises(StoreBusy, match="run `limpet migrate` again"):
            migrate(url, later)
    assert version(store) == schema.NEWEST
    assert migrate(url, later) == [f"{NUMBER:04}_later"]


def test_two_that_migrate_a_store_in_use_take_turns(
    store: PostgresStore, url: str, later: str
) -> None:
    done: list[list[str]] = []
    gate = threading.Barrier(3)

    def one() -> None:
        gate.wait()
        done.append(migrate(url, later))

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, done)) == [0, 0, 1]
    assert version(store) == NUMBER


def killed_before(statement: int, work: Callable[[], object]) -> bool:
    """Do it in a child that is killed before that statement; whether it came to its end."""
    child = os.fork()
    if child == 0:
        said = 0

        def counted(method: Any) -> Any:
            def say(*words: Any, **named: Any) -> Any:
                nonlocal said
                said += 1
                if said == statement:
                    os.kill(os.getpid(), signal.SIGKILL)
                return method(*words, **named)

            return say

        with suppress(BaseException):
            # What begins and ends a transaction does not go through execute.
            for name in ("execute", "_exec_command"):
                method = getattr(psycopg.Connection, name)
                setattr(psycopg.Connection, name, counted(method))
            work()
            os._exit(0)
        os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or status == 0, status
    return status == 0


def test_migration_that_is_killed_between_any_two_statements_has_changed_nothing(
    store: PostgresStore, url: str, later: str
) -> None:
    add(store)
    statement = 1
    while not killed_before(statement, lambda: migrate(url, later)):
        assert version(store) == schema.NEWEST
        add(store)
        statement += 1
    assert statement > 15, "there are as many statements as functions"
    assert version(store) == NUMBER
    assert store.invariants() == ()
    assert sum(store.queues()[0].counts.values()) == statement


def test_store_whose_making_is_killed_between_any_two_statements_is_not_there(url: str) -> None:
    def make() -> None:
        with closing(PostgresStore(url)) as own:
            own.migrate()

    statement = 1
    name = url.rpartition("=")[2]
    with psycopg.connect(url.partition("?")[0], autocommit=True) as raw:
        while not killed_before(statement, make):
            row = raw.execute("SELECT to_regnamespace(%s)", [name]).fetchone()
            assert row == (None,)
            statement += 1
    assert statement > 15
    with closing(PostgresStore(url)) as store:
        assert store.migrate() == ()
        add(store)
        assert store.invariants() == ()


def test_functions_of_an_older_release_are_written_anew_and_newer_ones_stay(
    store: PostgresStore,
) -> None:
    quoted = store._db.location.quoted
    text = f"SELECT pg_get_functiondef('{quoted}.v1_is_json(text)'::regprocedure)"
    spoil = (
        f"CREATE OR REPLACE FUNCTION {quoted}.v1_is_json(p_text text) RETURNS boolean "
        f"LANGUAGE sql STABLE AS 'SELECT true'; "
        f"COMMENT ON FUNCTION {quoted}.v1_time(bigint) IS "
    )
    add(store)
    with closing(store._db.connect()) as raw, closing(store._db.connect()) as busy:
        right = raw.execute(text.encode()).fetchone()
        busy.execute("BEGIN")  # a verb of a worker, under way
        busy.execute(f"SELECT {quoted}.v1_fold(10), {quoted}.v1_is_json('1')".encode())
        assert store.migrate() == ()
        for older in ("NULL", "'0.0.9 x'", "'0.1.0 x'"):
            raw.execute((spoil + older).encode())
            assert raw.execute(text.encode()).fetchone() != right
            assert store.migrate() == ("functions",)
            assert raw.execute(text.encode()).fetchone() == right
            assert store.migrate() == ()
        raw.execute((spoil + "'10.0 x'").encode())
        assert store.migrate() == ()
        assert raw.execute(text.encode()).fetchone() != right
