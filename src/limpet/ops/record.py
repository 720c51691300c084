"""How what this package answers is written as JSON.

An answer is a frozen struct. The names of its fields are the keys, but for bare numbers: there the
field has the unit in its name, and the key is the one that users know.
"""

from datetime import UTC, datetime
from typing import Any, overload

import msgspec


def plain(answer: object) -> Any:
    """An answer, or several of them, as JSON has it: objects, arrays, texts, numbers."""
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
    except (ValueError, ArithmeticError, OSError):  # no time that a calendar has
        return f"{wall} microseconds after 1970"
