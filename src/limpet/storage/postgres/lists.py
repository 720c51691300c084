"""A list as one text, which is four times as fast to send as an array (functions/01_column.sql)."""

from collections.abc import Iterable, Sequence

from limpet.domain.errors import InvalidOption

_NEXT = "\x1e"
_NULL = "\x1d"


def column(values: Sequence[str]) -> str:
    """Texts as one column parameter."""
    if not values:
        return ""
    joined = _NEXT + _NEXT.join(values)
    if joined.count(_NEXT) != len(values) or "\x00" in joined:
        _refuse(values)
    return joined


def nullable(values: Iterable[object]) -> str | None:
    """Texts and numbers, some of them None, as one column parameter; None if all are None."""
    listed = list(values)
    if all(value is None for value in listed):
        return None
    return column([_NULL if value is None else str(value) for value in listed])


def _refuse(values: Sequence[str]) -> None:
    for value in values:
        for odd in (_NEXT, "\x00"):
            if odd in value:
                raise InvalidOption(
                    f"{value[:60]!r}: a PostgreSQL store cannot keep the character {odd!r}; leave "
                    f"it out."
                )
