"""Writes storage/sqlite/schema.sql: what the numbered migrations add up to."""

from pathlib import Path

import apsw

import limpet
from limpet.domain.clock import SystemClock
from limpet.storage.sqlite.location import parse
from limpet.storage.sqlite.schema import apply

FILE = Path(limpet.__file__).parent / "storage" / "sqlite" / "schema.sql"
_HEAD = (
    "-- schema: the tables as all migrations leave them; to read, not to run.\n"
    "-- Generated from migrations/ by `make chart`; a test keeps it so.\n"
)


def schema() -> str:
    """The schema of a new store."""
    connection = apsw.Connection(":memory:")
    apply(connection, parse("sqlite://"), SystemClock())
    # The order in which they were made, without what SQLite makes itself.
    rows = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"
    ).fetchall()
    connection.close()
    return _HEAD + "".join(f"\n{row[0]};\n" for row in rows)


if __name__ == "__main__":
    FILE.write_text(schema(), encoding="utf-8")
    print(f"wrote {FILE}")
