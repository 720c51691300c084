"""The schema: made in a new file, checked in an old one, brought up to date by `migrate`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from limpet.domain.clock import Clock
from limpet.domain.errors import SchemaMismatch, StoreUnavailable
from limpet.domain.ids import IdSource
from limpet.storage.assets import names, script, text_of
from limpet.storage.contract.refusals import made_before_release
from limpet.storage.sqlite.boot import Renewals
from limpet.storage.sqlite.location import Location
from limpet.storage.sqlite.transaction import PACKAGE

# The version that this code writes, and the oldest version that it can work on.
NEWEST = 1
OLDEST = 1
# The oldest code that can work on what this code writes. It must know everything that a job gives
# back at its end (turns, permits …), or others would wait for that for ever.
OLDEST_BESIDE = 1


def migrations(package: str = PACKAGE) -> list[tuple[int, str]]:
    """The numbered steps, oldest first."""
    return [(int(name.partition("_")[0]), name) for name in names(package, "migrations")]


@contextmanager
def writing(connection: apsw.Connection) -> Iterator[None]:
    """A write transaction from its first statement on; an error rolls it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def create_or_check(
    connection: apsw.Connection, location: Location, clock: Clock, *, may_create: bool
) -> None:
    """Make the tables in a file that has none; refuse a version that this code cannot work on."""
    if not _has_tables(connection, location):
        if not may_create:
            raise StoreUnavailable(
                f"{location.path} has no Limpet tables yet; enqueue a job or run `limpet migrate` "
                f"to make them, or check the URL."
            )
        with writing(connection):
            # Another process may have made the tables while this one waited for the lock.
            if not _has_tables(connection, location):
                apply(connection, location, clock)
        return
    version, oldest, newest = _versions(connection, location)
    if oldest > NEWEST:
        raise SchemaMismatch(
            f"{location.path} was made by a newer Limpet (schema {version}, this one knows up to "
            f"{NEWEST}). Upgrade Limpet here, or name another store."
        )
    if newest < OLDEST:
        raise SchemaMismatch(
            f"{location.path} was made by an older Limpet (schema {version}, this one needs "
            f"{OLDEST}). Stop its workers and run `limpet migrate`."
        )


def apply(
    connection: apsw.Connection, location: Location, clock: Clock, package: str = PACKAGE
) -> list[str]:
    """Apply the steps that the file lacks, inside the caller's transaction; returns their names."""
    version = _versions(connection, location)[0] if _has_tables(connection, location) else 0
    applied = []
    for number, name in migrations(package):
        if number > version:
            connection.execute(text_of(package, f"migrations/{name}", location.namespace))
            applied.append(name.removesuffix(".sql"))
    if applied:
        statements = script(PACKAGE, "sql", "version", location.namespace)
        newest = migrations(package)[-1][0]
        params = {
            "epoch": IdSource(clock).new(),
            "version": newest,
            "oldest": OLDEST_BESIDE,
            "now": clock.wall(),
        }
        connection.execute(statements["stamp"], params)
    return applied


def foreign_renewals(connection: apsw.Connection, namespace: str, boot: str) -> Renewals:
    """The sessions of other boots that nobody has marked dead."""
    text = script(PACKAGE, "sql", "version", namespace)["foreign"]
    rows: Any = connection.execute(text, {"boot": boot}).fetchall()
    return {session: (renewals, renewed_at, lease) for session, renewals, renewed_at, lease in rows}


def _has_tables(connection: apsw.Connection, location: Location) -> bool:
    return connection.table_exists("main", f"{location.namespace}_store")


def _versions(connection: apsw.Connection, location: Location) -> tuple[int, int, int]:
    statements = script(PACKAGE, "sql", "version", location.namespace)
    if connection.execute(statements["before_release"]).fetchone():
        raise made_before_release(location.path)
    row: Any = connection.execute(statements["versions"]).fetchone()
    if row is None:
        raise SchemaMismatch(
            f"{location.path} has Limpet's tables but no version; restore a backup."
        )
    return int(row[0]), int(row[1]), int(row[2])
