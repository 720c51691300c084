"""Checks of options that a user wrote; each refuses with a sentence that says what to write.

`what` names the option in that sentence: "priority", or "Retry(attempts=…)", where the value
replaces the dots.
"""

import math
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypeAlias, TypeGuard, TypeVar

from limpet.domain.duration import Duration, duration
from limpet.domain.errors import InvalidOption

T = TypeVar("T")

ErrorTypes: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]

MOST = 1_000_000_000
"""The highest cap, limit or weight: every store can count to it."""


def refusal(what: str, value: object, wanted: str) -> InvalidOption:
    """The error for an option with a wrong value; `wanted` says what to write."""
    if what.endswith(("…)", "…})")):
        call, _, end = what.rpartition("…")
        return InvalidOption(f"{call}{value!r}{end}: write {wanted}.")
    return InvalidOption(f"{what} is {value!r}; write {wanted}.")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether the value is a whole number; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether the value is a finite number; True and False are not."""
    return is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def whole(value: int, what: str, least: int = 1, most: int | None = None) -> int:
    """A whole number from `least` up, at most `most`."""
    if is_whole(value) and least <= value and (most is None or value <= most):
        return value
    end = "up" if most is None else f"to {most:,}"
    raise refusal(what, value, f"a whole number from {least} {end}")


def amount(value: float, what: str) -> float:
    """A number that is not negative."""
    if is_number(value) and value >= 0:
        return value
    raise refusal(what, value, "a number from 0 up")


def share(value: float, what: str, *, above_zero: bool = False) -> float:
    """A part of one, such as 0.1 for a tenth."""
    if is_number(value) and 0 <= value <= 1 and (value or not above_zero):
        return value
    raise refusal(
        what, value, "a share " + ("above 0 and up to 1" if above_zero else "from 0 to 1")
    )


def flag(value: bool, what: str) -> bool:
    """True or False, and no value that only counts as one of them."""
    if isinstance(value, bool):
        return value
    raise refusal(what, value, "True or False")


def choice(value: object, what: str, choices: Iterable[T]) -> T:
    """One of a few words."""
    known = tuple(choices)
    for word in known:
        if value == word:
            return word
    *others, last = (f'"{word}"' for word in known)
    raise refusal(what, value, f"{', '.join(others)} or {last}")


def some_time(value: Duration, what: str) -> timedelta:
    """A duration longer than 0."""
    read = duration(value, what=what)
    if not read:
        raise refusal(what, value, "a time longer than 0")
    return read


def error_types(value: ErrorTypes, what: str) -> tuple[type[BaseException], ...]:
    """Exception classes; a single one needs no tuple."""
    types = tuple(value) if isinstance(value, list | tuple) else (value,)
    for kind in types:
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise refusal(what, value, "an exception class, or a tuple of them")
    return types


def instance(value: object, what: str, kind: type[T], wanted: str) -> T:
    """An object of one class; `wanted` shows how it is made."""
    if isinstance(value, kind):
        return value
    raise refusal(what, value, wanted)


def set_fields(made: object, **values: Any) -> None:
    """Set the fields of a frozen dataclass from its own `__init__`, after they were checked."""
    for name, value in values.items():
        object.__setattr__(made, name, value)
