"""Migrations: they add up to the schema, step by step, on a file that is in use."""

import sys
from pathlib import Path

import apsw
import pytest
from schema import FILE, schema

from limpet.domain.clock import SystemClock
from limpet.storage.sqlite import schema as store_schema
from limpet.storage.sqlite.location import parse
from limpet.storage.sqlite.store import SqliteStore


def tables(connection: apsw.Connection) -> list[tuple[object, ...]]:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name")
    return [tuple(row) for row in rows]


def test_the_migrations_add_up_to_the_schema() -> None:
    assert FILE.read_text(encoding="utf-8") == schema(), "run `make chart`"
    whole = apsw.Connection(":memory:")
    whole.execute(FILE.read_text(encoding="utf-8"))
    stepped = apsw.Connection(":memory:")
    store_schema.apply(stepped, parse("sqlite://"), SystemClock())
    assert tables(whole) == tables(stepped)


def test_migrations_are_numbered_without_a_gap() -> None:
    numbers = [number for number, _ in store_schema.migrations()]
    assert numbers == list(range(1, store_schema.NEWEST + 1))


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with this version's migrations and one more."""
    package = tmp_path / "later_limpet"
    (package / "migrations").mkdir(parents=True)
    (package / "__init__.py").touch()
    for source in (FILE.parent / "migrations").glob("*.sql"):
        (package / "migrations" / source.name).write_text(source.read_text())
    number = store_schema.NEWEST + 1
    step = package / "migrations" / f"{number:04}_note.sql"
    step.write_text("ALTER TABLE limpet_job ADD COLUMN note TEXT;")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield_name = "later_limpet"
    sys.modules.pop(yield_name, None)
    return yield_name


def test_a_store_is_brought_forward_with_its_jobs_and_only_once(tmp_path: Path, later: str) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    store = SqliteStore(url)
    store.migrate()
    epoch = store.info().epoch
    store.close()
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    location = parse(url)
    number = store_schema.NEWEST + 1
    assert store_schema.apply(connection, location, SystemClock(), later) == [f"{number:04}_note"]
    assert store_schema.apply(connection, location, SystemClock(), later) == []
    connection.close()
    again = SqliteStore(url)
    info = again.info()
    assert (info.schema_version, info.epoch) == (number, epoch)
    again.close()


def test_names_of_tables_follow_the_name_space(tmp_path: Path) -> None:
    one = SqliteStore(f"sqlite:///{tmp_path}/jobs.db")
    two = SqliteStore(f"sqlite:///{tmp_path}/jobs.db?namespace=other")
    assert one.migrate() == two.migrate() == ("0001_ground",)
    assert one.info().epoch != two.info().epoch
    one.pause("email")
    assert two.invariants() == one.invariants() == ()
    one.close()
    two.close()
    raw = apsw.Connection(str(tmp_path / "jobs.db"))
    names = {str(row[1]) for row in tables(raw)}
    raw.close()
    assert {"limpet_job", "other_job", "other_job_ready"} <= names
