"""Turns the answers of this package into JSON.

An answer is a frozen struct, and the names of its fields are the keys. Only where a field has the
unit of a number in its name, the key may be a shorter one that users know.
"""

from datetime import UTC, datetime
from typing import Any, overload

import msgspec


def plain(answer: object) -> Any:
    """An answer, or several of them, as JSON data: objects, arrays, texts, numbers."""
    return msgspec.to_builtins(answer)


@overload
def iso(wall: int) -> str: ...
@overload
def iso(wall: int | None) -> str | None: ...
def iso(wall: int | None) -> str | None:
    """A wall time in microseconds as ISO 8601 in UTC."""
    if wall is None:
        return None
    try:
        return datetime.fromtimestamp(wall / 1e6, UTC).isoformat(timespec="milliseconds")
    except (ValueError, ArithmeticError, OSError):  # outside of what a calendar has
        return f"{wall} microseconds after 1970"
