"""The schema: created where there is none, checked where there is one, updated by `migrate`."""

import hashlib
import random
import re
import time
from typing import Any

import psycopg
from psycopg import errors as pg

from limpet.domain.clock import Clock, SystemClock
from limpet.domain.errors import SchemaMismatch, StoreBusy, StoreUnavailable
from limpet.domain.ids import IdSource
from limpet.storage.assets import names, text_of
from limpet.storage.contract.refusals import made_before_release
from limpet.storage.postgres.location import Location
from limpet.storage.postgres.transaction import PACKAGE, functions, in_schema, statement
from limpet.storage.sql.rows import Row

# The version of the schema that this code writes, and the oldest that this code can work on.
NEWEST = 1
OLDEST = 1
# The oldest code that can work on the schema that this code writes.
OLDEST_BESIDE = 1

# The release whose functions these are: that of the package, which a test checks.
RELEASE = "0.1.0"

# How long one try to migrate may block other transactions, and for how long it is tried again.
_LOCK_MS = 200
_RETRY_FOR_SECONDS = 60.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 1.0


def migrations(package: str = PACKAGE) -> list[tuple[int, str]]:
    """The numbered steps, oldest first."""
    return [(int(name.partition("_")[0]), name) for name in names(package, "migrations")]


def create_or_check(
    connection: psycopg.Connection[Row],
    location: Location,
    clock: Clock | None,
    *,
    may_create: bool,
) -> str:
    """Create the tables where there are none; refuse a version that this code cannot work on.

    Returns the epoch of the store.
    """
    if not _there(connection, location)[1]:
        if not may_create:
            raise StoreUnavailable(
                f"{location.url} has no Limpet tables in the schema {location.schema} yet; enqueue "
                f"a job or run `limpet migrate` to make them, or check the URL."
            )
        apply(connection, location, clock)
    version, oldest, newest, epoch = _versions(connection, location)
    if oldest > NEWEST:
        raise SchemaMismatch(
            f"{location.url} was made by a newer Limpet (schema {version}, this one knows up to "
            f"{NEWEST}). Upgrade Limpet here, or name another store."
        )
    if newest < OLDEST:
        raise SchemaMismatch(
            f"{location.url} was made by an older Limpet (schema {version}, this one needs "
            f"{OLDEST}). Run `limpet migrate`."
        )
    return epoch


def apply(
    connection: psycopg.Connection[Row],
    location: Location,
    clock: Clock | None,
    package: str = PACKAGE,
) -> list[str]:
    """Apply the migrations that the schema lacks, in one transaction; return their names.

    The functions carry the version in their names, so that those of an older version stay for the
    workers that still use them. A migration locks tables for a moment. Behind a long transaction it
    would wait for these locks, and everybody else, workers first of all, would wait behind the
    migration. So it gives up at once and tries again a little later.
    """
    until = time.monotonic() + _RETRY_FOR_SECONDS
    pause_seconds = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return _applied(connection, location, clock, package)
        except (pg.LockNotAvailable, pg.DeadlockDetected) as error:
            if time.monotonic() > until:
                raise StoreBusy(
                    f"{location.url} cannot be brought up to date: another transaction has used "
                    f"its tables for {_RETRY_FOR_SECONDS:.0f} s; nothing was changed. Look for a "
                    f"long transaction in pg_stat_activity, and run `limpet migrate` again."
                ) from error
        time.sleep(random.uniform(pause_seconds / 2, pause_seconds))
        pause_seconds = min(pause_seconds * 2, _LONGEST_PAUSE_SECONDS)


def _applied(
    connection: psycopg.Connection[Row], location: Location, clock: Clock | None, package: str
) -> list[str]:
    quoted = location.quoted
    with connection.transaction():
        connection.execute(statement("version", "brief", quoted), {"lock": str(_LOCK_MS)})
        connection.execute(statement("version", "alone", quoted), {"schema": location.schema})
        has_schema, has_tables = _there(connection, location)
        version = _versions(connection, location)[0] if has_tables else 0
        steps = [(number, name) for number, name in migrations(package) if number > version]
        if not steps:
            return _refreshed(connection, quoted)
        if not has_schema:
            make = statement("call", "make_schema", quoted).format(schema=quoted)
            connection.execute(make.encode())
        for _, name in steps:
            connection.execute(in_schema(text_of(package, f"migrations/{name}"), quoted))
        _write_functions(connection, quoted)
        connection.execute(
            statement("version", "stamp", quoted),
            {
                "epoch": IdSource(clock or SystemClock()).new(),
                "version": steps[-1][0],
                "oldest": OLDEST_BESIDE,
                "wall": None if clock is None else clock.wall(),
            },
        )
    return [name.removesuffix(".sql") for _, name in steps]


def _refreshed(connection: psycopg.Connection[Row], quoted: str) -> list[str]:
    """Write the functions anew where an older Limpet wrote them, or this release in development.

    Functions of a newer Limpet stay. No table is locked, and calls under way end as they began.
    """
    row: Any = connection.execute(statement("version", "functions", quoted)).fetchone()
    writer, _, digest = (row[0] or "").partition(" ")
    own_writer, _, own_digest = _signature().partition(" ")
    if digest == own_digest or _numbers(writer) > _numbers(own_writer):
        return []
    _write_functions(connection, quoted)
    return ["functions"]


def _write_functions(connection: psycopg.Connection[Row], quoted: str) -> None:
    for text in functions(quoted):
        connection.execute(text)
    sign = statement("version", "sign_functions", quoted).format(signature=f"'{_signature()}'")
    connection.execute(sign.encode())


def _signature() -> str:
    text = "".join(functions("limpet"))
    return f"{RELEASE} {hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _there(connection: psycopg.Connection[Row], location: Location) -> tuple[bool, bool]:
    """Whether the schema exists, and whether Limpet's tables are in it.

    Raises for tables of before the first release, which can be neither used nor migrated.
    """
    row: Any = connection.execute(
        statement("version", "there", location.quoted),
        {"schema": location.schema},
    ).fetchone()
    if row[2]:
        raise made_before_release(location.url)
    return bool(row[0]), bool(row[1])


def _versions(connection: psycopg.Connection[Row], location: Location) -> tuple[int, int, int, str]:
    row: Any = connection.execute(statement("version", "versions", location.quoted)).fetchone()
    if row is None:
        raise SchemaMismatch(
            f"{location.url} has Limpet's tables but no version; restore a backup."
        )
    return int(row[0]), int(row[1]), int(row[2]), str(row[3])
