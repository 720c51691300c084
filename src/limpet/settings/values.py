"""Reads values as people write them in arguments, variables and files.

A wrong value is refused with a sentence that names its source.
"""

import contextlib
import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from limpet.domain.duration import duration
from limpet.domain.errors import InvalidOption
from limpet.domain.queue import checked_name
from limpet.domain.size import size

_SWITCH = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def a_text(value: object, source: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise InvalidOption(f"{source} is {value!r}; write a text.")
    return value


def a_name(value: object, source: str) -> str:
    """A name, as queues and workers have."""
    return checked_name(a_text(value, source), source)


def a_count(value: object, source: str, *, least: int, unit: str = "") -> int:
    """A whole number from `least` up; the text of a variable is fine too."""
    number = None
    if isinstance(value, int | str) and not isinstance(value, bool):
        try:
            number = int(value)
        except ValueError:
            number = None
    if number is None or number < least:
        what = f"a number of {unit}" if unit else "a whole number"
        raise InvalidOption(f"{source} is {value!r}; write {what} from {least} up.")
    return number


def a_share(value: object, source: str, *, least: float, most: float) -> float:
    """A number between two bounds; the bounds themselves are allowed, but not 0."""
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with contextlib.suppress(ValueError):
            number = float(value)
    if not (least <= number <= most and number > 0):  # and not a NaN
        lower = f"from {least:g}" if least else "above 0 and"
        raise InvalidOption(f"{source} is {value!r}; write a number {lower} up to {most:g}.")
    return number


def a_time(
    value: Any,
    source: str,
    *,
    least: timedelta = timedelta(),
    most: timedelta | None = None,
) -> timedelta:
    """A duration; the bare number of a variable is seconds, as numbers are everywhere."""
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value.strip()):
        value = float(value)
    read = duration(value, what=source)
    if read < least or (most is not None and read > most):
        most_words = f" and at most {_plainly(most)}" if most is not None else ""
        raise InvalidOption(
            f"{source} is {value!r}; it must be at least {_plainly(least)}{most_words}."
        )
    return read


def a_size(value: object, source: str, *, least: int) -> int:
    """A number of bytes, or a text such as "512MB" or "2GiB"."""
    return size(value, what=source, least=least)


def a_switch(value: object, source: str) -> bool:
    """Yes or no: true and false, or 1 and 0."""
    if isinstance(value, bool):
        return value
    known = _SWITCH.get(str(value).strip().lower()) if isinstance(value, str | int) else None
    if known is None:
        raise InvalidOption(f"{source} is {value!r}; write 1 or 0.")
    return known


def some_queues(value: object, source: str) -> dict[str, int | None]:
    """Queues and how many jobs of each may run at once: "email=5,video", a list, or a table."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, str | list | tuple):
        texts = value.split(",") if isinstance(value, str) else value
        for text in texts:
            name, separator, most = a_text(text, source).partition("=")
            pairs.append((name.strip(), most.strip() if separator else None))
    else:
        raise InvalidOption(f'{source} is {value!r}; write queues such as "email=5".')
    queues: dict[str, int | None] = {}
    for name, most in pairs:
        a_name(name, f"{source}: queue")
        if name in queues:
            raise InvalidOption(f"{source} names the queue {name!r} twice; write it once.")
        limit = None if most is None else a_count(most, f"{source}: {name}", least=1)
        queues[name] = limit
    return queues


def _plainly(value: timedelta) -> str:
    seconds = value.total_seconds()
    return f"{seconds / 3600:g}h" if seconds >= 3600 else f"{seconds:g}s"
