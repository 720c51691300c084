"""Plain data that can be printed as JSON: what every function here that tells something answers."""

from datetime import UTC, datetime
from typing import Any

Record = dict[str, Any]


def iso(wall: int | None) -> str | None:
    """A wall time in microseconds as ISO 8601 in UTC."""
    if wall is None:
        return None
    try:
        return datetime.fromtimestamp(wall / 1e6, UTC).isoformat(timespec="milliseconds")
    except (ValueError, ArithmeticError, OSError):  # no time that a calendar has
        return f"{wall} microseconds after 1970"
