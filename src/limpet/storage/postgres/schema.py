"""The schema: made where there is none, checked where there is one, brought up to date by
`migrate`.
"""

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
from limpet.storage.postgres.location import Location
from limpet.storage.postgres.transaction import PACKAGE, functions, in_schema, statement
from limpet.storage.refusals import made_before_release
from limpet.storage.rows import Row

# The version that this code writes, and the oldest one that it can work on.
NEWEST = 1
OLDEST = 1
# The oldest code that can work on what this one writes.
OLDEST_BESIDE = 1

# Which Limpet writes the functions: that of the package, as a test sees to.
RELEASE = "0.1.0"

# How long one try to migrate may make others wait, and for how long it is tried again.
_LOCK_MS = 200
_PATIENCE_SECONDS = 60.0
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
    """Make the tables where there are none; refuse a version that this code cannot work on.

    The answer is the epoch of the store.
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
    """Apply the steps that the schema lacks, in one transaction; name them.

    The functions carry the version in their names, so that those of an older version stay for the
    workers that still use them. A step needs tables for itself for a moment. A long transaction of
    somebody else would make it wait, and whoever comes after it, the workers first of all; so it
    gives up at once and tries again a little later.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return _applied(connection, location, clock, package)
        except (pg.LockNotAvailable, pg.DeadlockDetected) as error:
            if time.monotonic() > until:
                raise StoreBusy(
                    f"{location.url} cannot be brought up to date: somebody has used its tables in "
                    f"one transaction for {_PATIENCE_SECONDS:.0f} s; nothing was changed. Look for "
                    f"a long transaction in pg_stat_activity, and run `limpet migrate` again."
                ) from error
        time.sleep(random.uniform(pause / 2, pause))
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


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
    """Write the functions anew where an older Limpet wrote them, or the same one in development.

    Those of a newer one stay. No table is locked for it, and calls under way end as they began.
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
    """Whether the schema is there, and whether Limpet's tables are in it.

    Those of before the first release are refused: by all that use a store, and by what migrates.
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
