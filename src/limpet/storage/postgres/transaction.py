"""How a verb reaches the server: calls of functions, statements of scripts, and the time."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

import psycopg
from psycopg.rows import tuple_row

from limpet.domain.clock import Clock
from limpet.storage.assets import names, script, text_of
from limpet.storage.contract.bell import Topic
from limpet.storage.postgres.location import Location
from limpet.storage.sql.rows import Row

PACKAGE = __package__ or "limpet.storage.postgres"
_SCHEMA = "limpet."


def in_schema(text: str, quoted: str) -> str:
    """A script for the given schema; its tables and functions are written as `limpet.…`."""
    return text.replace(_SCHEMA, f"{quoted}.")


@cache
def statement(verb: str, name: str, quoted: str) -> str:
    """One statement of a verb's script."""
    return in_schema(script(PACKAGE, "sql", verb)[name], quoted)


@cache
def call_of(function: str, number: int, quoted: str) -> str:
    """The call of a function with that many parameters."""
    places = ", ".join(f"${place}" for place in range(1, number + 1))
    return statement("call", "function", quoted).format(name=function, places=places)


def functions(quoted: str) -> list[str]:
    """The functions of this version, in order."""
    return [
        in_schema(text_of(PACKAGE, f"functions/{name}"), quoted)
        for name in names(PACKAGE, "functions")
    ]


class Transaction:
    """What a verb works with. The time is the server's, unless there is a clock.

    `again`: an earlier try was undone, or was cut off and may have been committed. `kept`: calls of
    functions are prepared, so that the server parses them only once. `may_ring`: called before a
    commit; whether that commit may ring.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Row],
        location: Location,
        clock: Clock | None,
        *,
        again: bool = False,
        kept: bool = False,
        may_ring: Callable[[], bool] = lambda: False,
    ) -> None:
        self.may_ring = may_ring
        self.again = again
        self._kept = kept
        self.connection = connection
        self.quoted = location.quoted
        self.wall = None if clock is None else clock.wall()
        self.lease = None if clock is None else clock.boot()
        self.rings: set[Topic] = set()  # topics to ring after the commit

    def call(self, function: str, *params: object) -> list[Row]:
        """Call one of the functions and return its rows."""
        text = call_of(function, len(params), self.quoted)
        cursor = psycopg.RawCursor(self.connection, row_factory=tuple_row)
        try:
            return cursor.execute(text, params, binary=True, prepare=self._kept).fetchall()
        except psycopg.ProgrammingError as error:
            if error.sqlstate is None:  # raised by the driver, which cannot adapt a value
                raise TypeError(str(error).replace("'", "")) from None
            raise

    def run(self, verb: str, name: str, /, **params: object) -> list[Row]:
        """Run one statement of a verb's script and return all its rows."""
        cursor = self.connection.execute(
            statement(verb, name, self.quoted), cast("Mapping[str, Any]", params) or None,
            binary=True,
        )  # fmt: skip
        return cursor.fetchall() if cursor.description is not None else []

    def one(self, verb: str, name: str, /, **params: object) -> Row | None:
        """Run one statement and return its first row."""
        rows = self.run(verb, name, **params)
        return rows[0] if rows else None
