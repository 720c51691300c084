"""Migrations: they bring a file that is in use forward, once, and say who may work beside.

The next version is made from this one: a higher number, and one more step of the schema.
"""

import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import pytest
from contract.driver import Holder, add

from limpet.domain.clock import SystemClock
from limpet.domain.errors import SchemaMismatch
from limpet.domain.transition import Complete
from limpet.storage.postgres import schema as postgres_schema
from limpet.storage.sqlite import connection as store_connection
from limpet.storage.sqlite import schema as store_schema
from limpet.storage.sqlite.location import parse
from limpet.storage.sqlite.store import SqliteStore

FOLDER = Path(store_schema.__file__).parent / "migrations"
NEXT = store_schema.NEWEST + 1
STEP = f"{NEXT:04}_note"


def tables(connection: apsw.Connection) -> list[tuple[object, ...]]:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name")
    return [tuple(row) for row in rows]


@pytest.mark.parametrize(
    ("migrations", "newest"),
    [
        (store_schema.migrations, store_schema.NEWEST),
        (postgres_schema.migrations, postgres_schema.NEWEST),
    ],
    ids=["sqlite", "postgres"],
)
def test_migrations_are_numbered_without_a_gap(
    migrations: Callable[[], list[tuple[int, str]]], newest: int
) -> None:
    assert [number for number, _ in migrations()] == list(range(1, newest + 1))


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with this version's migrations and one more."""
    package = tmp_path / "later_limpet"
    (package / "migrations").mkdir(parents=True)
    (package / "__init__.py").touch()
    for _, name in store_schema.migrations():
        (package / "migrations" / name).write_text((FOLDER / name).read_text())
    (package / "migrations" / f"{STEP}.sql").write_text(
        "ALTER TABLE limpet_job ADD COLUMN note TEXT;"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop(package.name, None)
    return package.name


def become_next(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """From here on the code is that of the next version, which cannot work on older tables."""
    monkeypatch.setattr(store_schema, "NEWEST", NEXT)
    monkeypatch.setattr(store_schema, "OLDEST", NEXT)
    apply = partial(store_schema.apply, package=package)
    monkeypatch.setattr(store_connection, "apply", apply)


def test_older_store_is_refused_until_it_is_migrated_and_goes_on_with_all_it_has(
    tmp_path: Path, later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with closing(SqliteStore(url)) as store:
        jobs = [add(store) for _ in range(2)]
        holder = Holder(store)
        lease = holder.take()
        session = store.sessions()[0].id
    become_next(monkeypatch, later)
    with closing(SqliteStore(url)) as store:
        for use in (lambda: store.pause("email"), store.info):
            with pytest.raises(SchemaMismatch, match=r"schema 1.*run `limpet migrate`"):
                use()
        assert store.migrate() == (STEP,)
        assert store.migrate() == ()
        assert store.info().schema_version == NEXT
        assert [each.id for each in store.sessions()] == [session]
        assert store.states(jobs).keys() == set(jobs)
        later_holder = Holder(store)
        assert later_holder.settle(Complete(later_holder.take())) == ()
        assert lease.job in jobs
        assert store.invariants() == ()


def test_version_before_works_beside_the_next_where_that_allows_it(
    tmp_path: Path, later: str
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with closing(SqliteStore(url)) as before:
        add(before)
        with closing(apsw.Connection(str(tmp_path / "jobs.db"))) as connection:
            assert store_schema.apply(connection, parse(url), SystemClock(), later) == [STEP]
        add(before)  # also where it has the file open
        with closing(SqliteStore(url)) as anew:
            add(anew)
            assert anew.info().schema_version == NEXT
            assert anew.invariants() == ()


def test_version_before_is_refused_where_the_next_does_not_allow_it(
    tmp_path: Path, later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with closing(SqliteStore(url)) as store:
        store.migrate()
    with monkeypatch.context() as next_version:
        next_version.setattr(store_schema, "OLDEST_BESIDE", NEXT)
        with closing(apsw.Connection(str(tmp_path / "jobs.db"))) as connection:
            assert store_schema.apply(connection, parse(url), SystemClock(), later) == [STEP]
    with closing(SqliteStore(url)) as old, pytest.raises(SchemaMismatch, match="Upgrade Limpet"):
        old.pause("email")


def test_a_store_is_brought_forward_with_its_jobs_and_only_once(tmp_path: Path, later: str) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    store = SqliteStore(url)
    store.migrate()
    epoch = store.info().epoch
    store.close()
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    location = parse(url)
    assert store_schema.apply(connection, location, SystemClock(), later) == [STEP]
    assert store_schema.apply(connection, location, SystemClock(), later) == []
    connection.close()
    again = SqliteStore(url)
    info = again.info()
    assert (info.schema_version, info.epoch) == (NEXT, epoch)
    again.close()


def test_names_of_tables_follow_the_name_space(tmp_path: Path) -> None:
    one = SqliteStore(f"sqlite:///{tmp_path}/jobs.db")
    two = SqliteStore(f"sqlite:///{tmp_path}/jobs.db?namespace=other")
    assert one.migrate() == two.migrate() == ("0001_schema",)
    assert one.info().epoch != two.info().epoch
    one.pause("email")
    assert two.invariants() == one.invariants() == ()
    one.close()
    two.close()
    raw = apsw.Connection(str(tmp_path / "jobs.db"))
    names = {str(row[1]) for row in tables(raw)}
    raw.close()
    assert {"limpet_job", "other_job", "other_job_ready"} <= names
