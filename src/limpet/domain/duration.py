"""Durations as people write them: `timedelta`, seconds, or "90s", "10m", "2h", "1d"."""

import re
from datetime import timedelta
from typing import TypeAlias

from limpet.domain.errors import InvalidOption

Duration: TypeAlias = timedelta | int | float | str

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])\s*")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
LONGEST = timedelta(days=36_500)


def duration(value: Duration, *, what: str = "duration") -> timedelta:
    """Read a duration, or refuse with a sentence that names `what`."""
    try:
        read = _read(value)
    except (ValueError, TypeError, OverflowError):
        read = None
    if read is None or not timedelta() <= read <= LONGEST:
        raise InvalidOption(
            f"{what} is {value!r}; write a timedelta, a number of seconds, or text such as "
            f'"90s", "10m", "2h" or "1d", not negative and at most 100 years.'
        )
    return read


def _read(value: Duration) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return timedelta(seconds=value)
    text = value.strip().lower()
    if not _WHOLE.fullmatch(text):
        return None
    return sum((float(n) * _UNITS[unit] for n, unit in _PART.findall(text)), timedelta())


def microseconds(value: timedelta) -> int:
    """A duration as whole microseconds, the unit of the store."""
    return value // timedelta(microseconds=1)


def spoken(value: timedelta) -> str:
    """A duration for a person: "1.5s", "12m 30s", "3d 2h"."""
    total = value.total_seconds()
    if total < 0:
        return "-" + spoken(-value)
    if total < 60:
        return f"{total:.3f}".rstrip("0").rstrip(".") + "s"
    parts = []
    rest = int(total)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def spoken_microseconds(value: int) -> str:
    """As `spoken`, for whole microseconds."""
    return spoken(timedelta(microseconds=value))


def microseconds_or_none(value: timedelta | None) -> int | None:
    """A limit as whole microseconds; None stays None, no limit."""
    return None if value is None else microseconds(value)
