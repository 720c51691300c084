"""Migrations: they add up to the schema, step by step, on a file that is in use."""

import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from schema import FILE, schema

from limpet.domain.clock import SystemClock
from limpet.domain.errors import SchemaMismatch
from limpet.domain.job import NewJob
from limpet.domain.state import State
from limpet.host.boot import boot_id
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


def package_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, steps: dict[str, str]
) -> str:
    """A package with those migrations."""
    package = folder / name
    (package / "migrations").mkdir(parents=True)
    (package / "__init__.py").touch()
    for step, text in steps.items():
        (package / "migrations" / step).write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop(name, None)
    return name


def steps_up_to(number: int) -> dict[str, str]:
    return {
        name: (FILE.parent / "migrations" / name).read_text()
        for each, name in store_schema.migrations()
        if each <= number
    }


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with this version's migrations and one more."""
    steps = steps_up_to(store_schema.NEWEST)
    note = f"{store_schema.NEWEST + 1:04}_note.sql"
    steps[note] = "ALTER TABLE limpet_job ADD COLUMN note TEXT;"
    return package_of(tmp_path, monkeypatch, "later_limpet", steps)


def made_by_version_1(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store as the first version made it, with a session that nobody has ended."""
    url = f"sqlite:///{folder}/old.db"
    package = package_of(folder, monkeypatch, "first_limpet", steps_up_to(1))
    connection = apsw.Connection(str(folder / "old.db"))
    store_schema.apply(connection, parse(url), SystemClock(), package)
    connection.execute(
        "INSERT INTO limpet_session (id, kind, name, host, pid, boot, lease, state, moment, tasks,"
        " pools, registered_at, renewed_at)"
        " VALUES ('s', 'worker', 'w', 'h', 1, ?, 1, 'live', 1, 'd', '[]', 1, 1)",
        (boot_id(),),
    )
    connection.close()
    return url


def test_store_of_version_1_is_refused_until_it_is_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = made_by_version_1(tmp_path, monkeypatch)
    with closing(SqliteStore(url)) as store:
        for use in (lambda: store.pause("email"), store.info):
            with pytest.raises(SchemaMismatch, match=r"schema 1.*run `limpet migrate`"):
                use()
        assert store.migrate() == (
            "0002_worker",
            "0003_lean",
            "0004_move",
            "0005_shaping",
            "0006_schedules",
            "0007_gate",
            "0008_callers",
        )
        assert store.migrate() == ()
        assert store.info().schema_version == store_schema.NEWEST
        (kept,) = store.sessions()
        assert (kept.id, kept.boot, kept.lock) == ("s", boot_id(), None)
        assert store.invariants() == ()


def test_code_that_knows_no_turns_may_not_work_on_a_store_that_gives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with closing(SqliteStore(url)) as store:
        store.migrate()
    monkeypatch.setattr(store_schema, "NEWEST", 4)
    monkeypatch.setattr(store_schema, "OLDEST", 4)
    with closing(SqliteStore(url)) as old, pytest.raises(SchemaMismatch, match="Upgrade Limpet"):
        old.pause("email")


def test_keys_and_uniques_of_before_are_kept_from_the_migration_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    package = package_of(tmp_path, monkeypatch, "fourth_limpet", steps_up_to(4))
    connection = apsw.Connection(str(tmp_path / "old.db"))
    store_schema.apply(connection, parse(url), SystemClock(), package)
    connection.execute(
        "INSERT INTO limpet_job (n, id, task, queue, state, priority, sort_key, ready_at,"
        " created_at, key, unique_key, payload_version)"
        " VALUES (1, 'a', 't', 'q', 'ready', 0, 1, 1, 1, 'k', 'u', 1),"
        " (2, 'b', 't', 'q', 'ready', 0, 1, 1, 1, 'k', 'u', 1);"
        "INSERT INTO limpet_payload (n, args, options) VALUES (1, '{}', '{}'), (2, '{}', '{}');"
        "INSERT INTO limpet_gauge VALUES ('q', 'ready', 2)"
    )
    connection.close()
    with closing(SqliteStore(url)) as store:
        assert store.migrate() == (
            "0005_shaping",
            "0006_schedules",
            "0007_gate",
            "0008_callers",
        )
        assert store.invariants() == ()
        (second, waiting) = store.enqueue(
            [NewJob("c", "t", "{}", unique="u"), NewJob("d", "t", "{}", key="k")]
        )
        assert (second.job, second.outcome) == ("b", "duplicate")
        assert waiting.state is State.BLOCKED


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
    steps = (
        "0001_ground",
        "0002_worker",
        "0003_lean",
        "0004_move",
        "0005_shaping",
        "0006_schedules",
        "0007_gate",
        "0008_callers",
    )
    assert one.migrate() == two.migrate() == steps
    assert one.info().epoch != two.info().epoch
    one.pause("email")
    assert two.invariants() == one.invariants() == ()
    one.close()
    two.close()
    raw = apsw.Connection(str(tmp_path / "jobs.db"))
    names = {str(row[1]) for row in tables(raw)}
    raw.close()
    assert {"limpet_job", "other_job", "other_job_ready"} <= names
