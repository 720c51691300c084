"""Stored fields that cannot be read: the one way to read a field, and to report a failure.

Anyone who may write to the store can put anything into a single field: an operator, another
version, another language's client, an import that was left half done. One such field must not stop
the work on all other rows. So `field` and `or_else` read a field and name the row and the field on
failure; code that reads many rows uses `readable`, which leaves out the rows that cannot be read.
Each process logs each such field once.
"""

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from limpet import log
from limpet.domain.errors import StoreCorrupt

R = TypeVar("R")
T = TypeVar("T")

# The errors of reading nonsense, and no others: a defect of ours must not be taken for nonsense.
NONSENSE = (
    msgspec.MsgspecError,
    ValueError,  # also InvalidOption, and bytes that are not text
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    struct.error,
)

# The fields that were logged: a bounded number, lest a store full of nonsense fill the memory.
_MOST_NAMED = 10_000
_named: set[tuple[str, str, str]] = set()
_SHOWN = 200


class UnreadableRow(StoreCorrupt):
    """A field of one row holds what no version of Limpet writes; the other rows are not touched."""

    def __init__(self, kind: str, row: str, field: str, reason: str) -> None:
        super().__init__(
            f"the {field} of {kind} {row} cannot be read ({reason}); write it anew or remove it."
        )
        self.kind = kind
        self.row = row
        self.field = field
        self.reason = reason


def field(kind: str, row: str | int, name: str, read: Callable[[R], T], value: R) -> T:
    """Read one field of a stored row; raises `UnreadableRow`, which names row and field."""
    try:
        return read(value)
    except UnreadableRow:
        raise
    except NONSENSE as error:
        raise unreadable(kind, row, name, error) from error


def or_else(
    kind: str,
    row: str | int,
    name: str,
    read: Callable[[R], T],
    value: R,
    otherwise: T,
    faults: list[str] | None = None,
) -> T:
    """Read one field of a stored row; if it cannot be read, log that and return `otherwise`.

    `faults`: the list to which the names of unreadable fields are added.
    """
    try:
        return read(value)
    except NONSENSE as error:
        note(unreadable(kind, row, name, error))
        if faults is not None:
            faults.append(name)
        return otherwise


def readable(rows: Iterable[R], read: Callable[[R], T]) -> list[T]:
    """All rows that can be read; the others are logged and left out.

    `read` must read the fields by `field`.
    """
    found: list[T] = []
    for row in rows:
        try:
            found.append(read(row))
        except UnreadableRow as error:
            note(error)
    return found


def unreadable(kind: str, row: str | int, name: str, error: BaseException) -> UnreadableRow:
    """The error that names a row (by id or number), its field, and why the field is unreadable."""
    row = row if isinstance(row, str) else f"number {row}"
    shown = row if row.isprintable() and len(row) <= _SHOWN else repr(row[:_SHOWN])
    return UnreadableRow(kind, shown, name, why(error))


def why(error: BaseException) -> str:
    """What is wrong with a stored text, in a few words and without the text itself."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeError):
        return "it is not text"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def note(error: UnreadableRow) -> None:
    """Log an unreadable field, once for each field of a row."""
    name = (error.kind, error.row, error.field)
    if name in _named:
        return
    if len(_named) >= _MOST_NAMED:
        _named.clear()
    _named.add(name)
    log.emit(
        "row_unreadable", kind=error.kind, row=error.row, field=error.field, error=error.reason
    )
