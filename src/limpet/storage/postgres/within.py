"""A job that exists if and only if the user's own transaction commits.

Every driver sends the same few statements under a savepoint, each in its own way. Drivers are
recognised by the names of their modules, because only psycopg must be installed.
"""

import contextlib
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg import errors as pg

from limpet.domain.errors import TransactionRefused
from limpet.domain.job import NewJob
from limpet.domain.state import State
from limpet.storage.contract.answers import Receipt
from limpet.storage.contract.caps import are_one, none_written, over_cap
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.enqueue import (
    length_params,
    receipts_of_all,
    uniques,
    unknown_parent,
    written_whole,
)
from limpet.storage.postgres.failures import translate_error
from limpet.storage.postgres.transaction import call_of, statement
from limpet.storage.sql.rows import Row

_ANOTHER_STORE = "LP002"


class _Query(NamedTuple):
    """A statement for the user's connection; its rows are sent back."""

    text: str
    params: tuple[object, ...] = ()


_Queries: TypeAlias = Generator[_Query, list[Row], list[Receipt]]
_Send: TypeAlias = Callable[[_Query], list[Row]]
_SendAsync: TypeAlias = Callable[[_Query], Awaitable[list[Row]]]


def enqueue_within(
    database: Database,
    connection: object,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int] | None,
) -> list[Receipt]:
    """Enqueue in the open transaction of the caller's connection, or refuse."""
    send = _sender(connection)
    queries = _queries(_prepared(database), jobs, caps)
    try:
        query = next(queries)
        while True:
            try:
                rows = send(query)
            except Exception as error:
                query = queries.throw(_explained(error, database))
            else:
                query = queries.send(rows)
    except StopIteration as end:
        answer: list[Receipt] = end.value
        return answer


async def aenqueue_within(
    database: Database,
    connection: object,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int] | None,
) -> list[Receipt]:
    """As `enqueue_within`, for a connection whose calls are awaited."""
    send = await _async_sender(connection)
    queries = _queries(_prepared(database), jobs, caps)
    try:
        query = next(queries)
        while True:
            try:
                rows = await send(query)
            except Exception as error:
                query = queries.throw(_explained(error, database))
            else:
                query = queries.send(rows)
    except StopIteration as end:
        answer: list[Receipt] = end.value
        return answer


def _prepared(database: Database) -> Database:
    if database.epoch is None:
        database.once(lambda tx: None)  # creates missing tables, and reads the epoch
    return database


def _queries(
    database: Database, jobs: Sequence[NewJob], caps: Mapping[str, int] | None
) -> _Queries:
    quoted = database.location.quoted
    wall = None if database.clock is None else database.clock.wall()
    yield _Query(statement("connection", "savepoint", quoted))
    try:
        refused: dict[str, Receipt] = {}
        whole = are_one(jobs)
        if caps:
            # No lock, which would be held until the caller commits: two callers may both take the
            # last place.
            lengths_call = call_of("queue_lengths", 2, quoted)
            ((there, waiting),) = yield _Query(lengths_call, length_params(jobs, caps))
            known = {id_: State(state) for id_, state in _read(there).items()}
            lengths = _read(waiting)
            uncounted = dict(known)
            if duplicates := uniques(jobs, wall):
                ((held,),) = yield _Query(call_of("held_uniques", 4, quoted), duplicates)
                uncounted |= dict.fromkeys(_listed(held), State.READY)
            refused = over_cap(jobs, caps, uncounted, lambda queue: int(lengths[queue]))
            if refused and whole:
                none = none_written(jobs, known, refused)
                refused = {job.id: receipt for job, receipt in zip(jobs, none, strict=True)}
        wanted = [job for job in jobs if job.id not in refused]
        receipt_of: dict[str, Receipt] = {}
        if wanted:
            params = (*written_whole(wanted), wall, database.epoch, False, False, whole, True)
            ((at, no, blocked, _),) = yield _Query(call_of("admit", len(params), quoted), params)
            answer = receipts_of_all(wanted, at, _read(no), _listed(blocked))
            receipt_of = dict(zip((job.id for job in wanted), answer, strict=True))
    except Exception:
        # A failure here leaves the caller's transaction as it was, unless its connection is lost.
        with contextlib.suppress(Exception):
            yield _Query(statement("connection", "back", quoted))
        raise
    yield _Query(statement("connection", "release", quoted))
    return [refused.get(job.id) or receipt_of[job.id] for job in jobs]


def _read(value: Any) -> dict[str, Any]:
    """A JSON object as a driver returns it: decoded, or as text."""
    return dict(_decoded(value) or {})


def _listed(value: Any) -> list[Any]:
    return list(_decoded(value) or [])


def _decoded(value: Any) -> Any:
    if isinstance(value, (str, bytes)):
        import msgspec

        return msgspec.json.decode(value)
    return value


# -- how each driver sends a query


def _sender(connection: object) -> _Send:
    if isinstance(connection, psycopg.Connection):
        return _psycopg(connection)
    kind = _kind(connection)
    if kind.startswith("sqlalchemy.") and not kind.startswith("sqlalchemy.ext.asyncio"):
        return _sqlalchemy(connection)
    if _is_async(connection):
        raise TransactionRefused(
            f"within= was given a {kind}, whose calls are awaited: use `await task.aenqueue(…, "
            f"within=connection)`."
        )
    raise _unknown(kind)


async def _async_sender(connection: object) -> _SendAsync:
    kind = _kind(connection)
    if isinstance(connection, psycopg.AsyncConnection):
        return _psycopg_async(connection)
    if kind.startswith("asyncpg."):
        return _asyncpg(connection)
    if kind.startswith("sqlalchemy.ext.asyncio"):
        return await _sqlalchemy_async(connection)
    if isinstance(connection, psycopg.Connection) or kind.startswith("sqlalchemy."):
        raise TransactionRefused(
            f"within= was given a {kind}, which blocks: use enqueue(), which only writes to its "
            f"transaction."
        )
    raise _unknown(kind)


# Never prepared: behind a transaction pooler a name may belong to another client's statement.
def _psycopg(connection: psycopg.Connection[Any]) -> _Send:
    def send(query: _Query) -> list[Row]:
        cursor = psycopg.RawCursor(connection, row_factory=psycopg.rows.tuple_row)
        cursor.execute(query.text, query.params or None, prepare=False)
        return cursor.fetchall() if cursor.description else []

    return send


def _psycopg_async(connection: psycopg.AsyncConnection[Any]) -> _SendAsync:
    async def send(query: _Query) -> list[Row]:
        cursor = psycopg.AsyncRawCursor(connection, row_factory=psycopg.rows.tuple_row)
        await cursor.execute(query.text, query.params or None, prepare=False)
        return await cursor.fetchall() if cursor.description else []

    return send


def _asyncpg(connection: Any) -> _SendAsync:
    async def send(query: _Query) -> list[Row]:
        if not query.params:
            await connection.execute(query.text)
            return []
        return [tuple(row) for row in await connection.fetch(query.text, *query.params)]

    return send


def _sqlalchemy(connection: Any) -> _Send:
    own = connection.connection() if hasattr(connection, "get_bind") else connection
    _refuse_other_database(own.dialect.name)

    def send(query: _Query) -> list[Row]:
        answer = own.execute(*_named(query))
        return [tuple(row) for row in answer] if answer.returns_rows else []

    return send


async def _sqlalchemy_async(connection: Any) -> _SendAsync:
    own = await connection.connection() if hasattr(connection, "get_bind") else connection
    _refuse_other_database(own.dialect.name)

    async def send(query: _Query) -> list[Row]:
        answer = await own.execute(*_named(query))
        return [tuple(row) for row in answer] if answer.returns_rows else []

    return send


def _named(query: _Query) -> tuple[Any, dict[str, object]]:
    """The query with named parameters, as SQLAlchemy takes them for every driver."""
    import sqlalchemy

    text = query.text
    for place in range(len(query.params), 0, -1):
        text = text.replace(f"${place}", f":p{place}")
    return sqlalchemy.text(text), {f"p{at}": value for at, value in enumerate(query.params, 1)}


def _refuse_other_database(name: str) -> None:
    if name != "postgresql":
        raise TransactionRefused(
            f"within= was given a connection to {name}, but the store is PostgreSQL. One "
            f"transaction cannot span two databases."
        )


def _kind(connection: object) -> str:
    """The driver's class that the connection is an instance of; else the connection's own class."""
    kinds = [f"{base.__module__}.{base.__qualname__}" for base in type(connection).__mro__]
    return next((kind for kind in kinds if kind.startswith(("sqlalchemy.", "asyncpg."))), kinds[0])


def _is_async(connection: object) -> bool:
    kind = _kind(connection)
    return isinstance(connection, psycopg.AsyncConnection) or kind.startswith(
        ("asyncpg.", "sqlalchemy.ext.asyncio")
    )


def _unknown(kind: str) -> TransactionRefused:
    return TransactionRefused(
        f"within= takes a connection of psycopg, asyncpg or SQLAlchemy to the database of this "
        f"store, not a {kind}."
    )


# -- what goes wrong


def _explained(error: Exception, database: Database) -> Exception:
    known = _as_psycopg(error)
    if known is None:
        return error
    match known.sqlstate:
        case "25P01":
            return TransactionRefused(
                "within= was given a connection that has no open transaction, so there is nothing "
                "to commit with. Begin one first, and do not use autocommit."
            )
        case "25P02":
            return TransactionRefused(
                "within= was given a connection whose transaction has failed; roll it back first."
            )
        case _ if known.sqlstate == _ANOTHER_STORE:
            return TransactionRefused(
                f"within= was given a connection to another database than that of the store "
                f"{database.location.url}. One transaction cannot span two."
            )
        case "42P01" | "42883" | "3F000":
            return TransactionRefused(
                f"within= was given a connection that does not see the schema "
                f"{database.location.schema} of the store {database.location.url}; connect to the "
                f"same database."
            )
        case "42501":
            return TransactionRefused(
                f"within= was given a connection whose role may not write to the schema "
                f"{database.location.schema}: {known}. Its rights: docs/concepts/postgresql."
            )
        case _:
            return unknown_parent(known) or translate_error(known, database.location)


def _as_psycopg(error: Exception) -> psycopg.Error | None:
    """The error of any of the drivers as one of psycopg's."""
    found: Any = error
    for _ in range(4):
        if isinstance(found, psycopg.Error):
            return found
        state = getattr(found, "sqlstate", None) or getattr(found, "pgcode", None)  # psycopg2's
        if isinstance(state, str):
            try:
                return pg.lookup(state)(str(found))
            except KeyError:
                return _other(state, str(found))
        found = getattr(found, "orig", None) or getattr(found, "__cause__", None)
        if found is None:
            return None
    return None


def _other(state: str, message: str) -> psycopg.Error:
    error = psycopg.DatabaseError(message)
    error.sqlstate = state
    return error
