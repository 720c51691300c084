"""What a store holds and nobody can read: one way to read a stored field, named when it fails.

Whoever may write the store can put anything into a single field: an operator, another version,
another language's client, an import that was left half done. One such field must not stop what is
done with all the other rows. So a field is read by `field` or `or_else`, which name the row and the
field; what reads many rows goes through `readable`, which leaves out the rows that cannot be read.
Either way it is logged once for each field and process.
"""

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from limpet import log
from limpet.domain.errors import StoreCorrupt

R = TypeVar("R")
T = TypeVar("T")

# What reading nonsense raises. Nothing else does, so that a defect of ours is not taken for it.
NONSENSE = (
    msgspec.MsgspecError,
    ValueError,  # also InvalidOption, and bytes that are no text
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    struct.error,
)

# At most so many are remembered, lest a store full of nonsense fill the memory.
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
    """Read one field of a stored row, or raise `UnreadableRow`, which names both."""
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
    """Read one field of a stored row; what cannot be read is named, and is `otherwise`.

    `faults`: gets the names of the row's fields that cannot be read.
    """
    try:
        return read(value)
    except NONSENSE as error:
        note(unreadable(kind, row, name, error))
        if faults is not None:
            faults.append(name)
        return otherwise


def readable(rows: Iterable[R], read: Callable[[R], T]) -> list[T]:
    """All rows that can be read; the others are named and left out.

    `read` reads the fields by `field`.
    """
    found: list[T] = []
    for row in rows:
        try:
            found.append(read(row))
        except UnreadableRow as error:
            note(error)
    return found


def unreadable(kind: str, row: str | int, name: str, error: BaseException) -> UnreadableRow:
    """The error that names a row, by id or number, its field, and why that cannot be read."""
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
    """Log what cannot be read, once for each field of a row."""
    name = (error.kind, error.row, error.field)
    if name in _named:
        return
    if len(_named) >= _MOST_NAMED:
        _named.clear()
    _named.add(name)
    log.emit(
        "row_unreadable", kind=error.kind, row=error.row, field=error.field, error=error.reason
    )
