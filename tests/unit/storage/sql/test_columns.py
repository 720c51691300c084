"""Columns are read by name, and the views of the stores have these names in this order."""

import re
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest
from contract.driver import BACKENDS

from limpet.domain.clock import SystemClock
from limpet.storage.assets import script
from limpet.storage.sql.rows import JobRow, SessionRow
from limpet.storage.sqlite.location import parse
from limpet.storage.sqlite.schema import apply


def test_view_of_jobs_in_sqlite_has_the_columns_that_are_read() -> None:
    with closing(apsw.Connection(":memory:")) as made:
        apply(made, parse("sqlite://"), SystemClock())
        found = made.execute("SELECT name FROM pragma_table_info('limpet_job_view')").fetchall()
    assert tuple(name for (name,) in found) == JobRow._fields


def test_view_of_jobs_in_postgres_has_the_columns_that_are_read(tmp_path: Path) -> None:
    with psycopg.connect(BACKENDS["postgres"](tmp_path)) as made:
        cursor = made.execute("SELECT * FROM limpet.job_view LIMIT 0")
        assert cursor.description is not None
        assert tuple(column.name for column in cursor.description) == JobRow._fields


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_statement_of_sessions_has_the_columns_that_are_read(store: str) -> None:
    text = script(f"limpet.storage.{store}", "sql", "inspect")["sessions"]
    listed = text.partition("SELECT ")[2].partition("\nFROM")[0]
    names = re.findall(r"(?:coalesce\()?(?:\w\.)?(\w+)(?:, 0\))?(?:,\s+|$)", listed)
    assert tuple(names[: len(SessionRow._fields)]) == SessionRow._fields
