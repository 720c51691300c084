"""Translates errors of the driver into ours; each sentence says what happened and what to do."""

import psycopg
from psycopg import errors as pg

from limpet.domain.errors import (
    InvalidOption,
    SchemaMismatch,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
    StoreUnreachable,
)
from limpet.storage.contract.relocation import refused
from limpet.storage.postgres.location import Location

_CLOSED = "LP003"
_NOTHING = "nothing was written"
_PERHAPS = "a first try was cut off, and may have been written"

# Errors that pass at once: the server has undone the transaction, which may be repeated right away.
# UniqueViolation: the repeated enqueue looks for jobs that exist (functions/10_enqueue.sql).
_AGAIN = (pg.SerializationFailure, pg.DeadlockDetected, pg.UniqueViolation)


def may_be_repeated(error: psycopg.Error) -> bool:
    """Whether the server undid a transaction only because of another one."""
    return isinstance(error, _AGAIN)


def is_cut(error: psycopg.Error) -> bool:
    """Whether the connection is lost, and perhaps the answer with it."""
    state = error.sqlstate
    lost = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return lost and (state is None or state.startswith("08") or state in _CUTS)


# The server cut the connection: an administrator, a crash, or a timeout of the server.
_CUTS = ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04")


# Messages of the server while a connection is opened; libpq gives no error code for them.
_WHILE_CONNECTING = {
    "password authentication failed": pg.InvalidPassword,
    "no password supplied": pg.InvalidPassword,
    "no pg_hba.conf entry": pg.InvalidAuthorizationSpecification,
    # Before 'role "' and 'database "': too many connections for role "x", for database "x".
    "too many clients": pg.TooManyConnections,
    "too many connections": pg.TooManyConnections,
    "no more connections allowed": pg.TooManyConnections,
    "remaining connection slots": pg.TooManyConnections,
    'role "': pg.InvalidAuthorizationSpecification,
    'database "': pg.InvalidCatalogName,
}


def _named(error: psycopg.Error) -> psycopg.Error:
    """The error as its specific class, also where the driver gave it no code."""
    if error.sqlstate is None and "FATAL" in str(error):
        for words, kind in _WHILE_CONNECTING.items():
            if words in str(error):
                return kind(str(error).rpartition("FATAL:")[2].strip())
    return error


def translate_error(
    error: psycopg.Error, location: Location, *, cut: bool = False
) -> StoreError | InvalidOption:
    """The store error for an error of the driver.

    `cut`: an earlier try was cut off, and may have been committed.
    """
    if error.sqlstate == _CLOSED:
        return refused(error.diag.message_primary or str(error).partition("\n")[0])
    translated = _translate(_named(error), location)
    if cut and _NOTHING in str(translated):
        return type(translated)(str(translated).replace(_NOTHING, _PERHAPS))
    return translated


def _translate(error: psycopg.Error, location: Location) -> StoreError | InvalidOption:
    where = location.url
    reason = _reason(error)
    match error:
        case pg.InvalidPassword() | pg.InvalidAuthorizationSpecification():
            return StoreRefused(
                f"{where} refuses this user: {reason}. Check the user and the password in the URL."
            )
        case pg.InsufficientPrivilege():
            return StoreRefused(
                f"{where}: {reason}. Let the owner of the schema run `limpet migrate`, and grant "
                f"this role its rights (docs/concepts/postgresql)."
            )
        case pg.ReadOnlySqlTransaction():
            return StoreReadOnly(
                f"{where} can be read but not written: it is a standby, or set to read only. Use "
                f"the URL of the primary, or target_session_attrs=read-write with several hosts."
            )
        case pg.TooManyConnections():
            return StoreUnreachable(
                f"{where} has no connection left ({reason}). Raise max_connections, put a pooler "
                f"before it, or run fewer processes; {_NOTHING}."
            )
        case pg.InvalidCatalogName():
            return StoreUnavailable(
                f"{where}: {reason}. Make it with createdb, or name another database in the URL."
            )
        case pg.DiskFull() | pg.OutOfMemory() | pg.InsufficientResources():
            return StoreFull(
                f"there is no room left at {where} ({reason}); {_NOTHING}. Free some "
                f"space and try again."
            )
        case pg.LockNotAvailable() | pg.DeadlockDetected() | pg.SerializationFailure():
            return StoreBusy(
                f"another transaction holds a lock at {where} for too long ({reason}); {_NOTHING}."
                f" Look for a long transaction in pg_stat_activity."
            )
        case pg.QueryCanceled():
            return StoreBusy(
                f"{where} took too long ({reason}); {_NOTHING}. Look for a long "
                f"transaction or a busy disk, or raise statement_timeout."
            )
        case pg.DataCorrupted() | pg.IndexCorrupted():
            return StoreCorrupt(f"{where} is damaged ({reason}). Restore a backup.")
        case (
            pg.UndefinedTable()
            | pg.UndefinedFunction()
            | pg.UndefinedColumn()
            | pg.InvalidSchemaName()
        ):
            return SchemaMismatch(
                f"{where} no longer has the tables of this version of Limpet ({reason}). Run "
                f"`limpet migrate`."
            )
        case psycopg.DataError():
            return InvalidOption(f"{where} cannot keep that: {reason}.")
        case _:
            return _unavailable(error, where, reason)


def _unavailable(error: psycopg.Error, where: str, reason: str) -> StoreUnavailable:
    if is_cut(error):
        return StoreUnreachable(
            f"{where} cannot be reached: {reason}. Start the server, or check the URL."
        )
    return StoreUnavailable(f"{where} cannot be used: {reason}.")


def _reason(error: psycopg.Error) -> str:
    message = error.diag.message_primary or str(error)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[0].removeprefix("connection failed: ").rstrip(".") if lines else str(type(error))
