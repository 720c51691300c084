"""Sizes of memory as people write them: bytes, or "512MB", "2GiB"."""

import re
from typing import TypeAlias

from limpet.domain.checks import is_whole
from limpet.domain.errors import InvalidOption

Size: TypeAlias = int | str

_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?))?b?", re.IGNORECASE)
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
# Some stores count in doubles, which are exact up to here.
_LARGEST = 1 << 53


def size(value: object, *, what: str = "size", least: int = 0) -> int:
    """Read a number of bytes, or refuse with a sentence that names `what`."""
    read: float | None = None
    if is_whole(value):
        read = value
    elif isinstance(value, str) and (match := _TEXT.fullmatch(value.strip())):
        number, prefix, binary = match.groups()
        power = 0 if prefix is None else "kmgt".index(prefix.lower()) + 1
        read = float(number) * (1024 if binary else 1000) ** power
    if read is None or not least <= read <= _LARGEST:
        bound = f"at least {least // 1_000_000}MB" if least else "not negative"
        raise InvalidOption(
            f'{what} is {value!r}; write a size such as "512MB" or "2GiB", or a number of '
            f"bytes, {bound}."
        )
    return int(read)


def in_unit(value: int, like: int) -> tuple[str, str]:
    """A size for a person, in the unit that suits the size `like`: ("1.2", "GiB")."""
    for factor, unit in _UNITS:
        if like >= factor:
            return f"{value / factor:.1f}".removesuffix(".0"), unit
    return str(value), "B"


def spoken_size(value: int) -> str:
    """A size for a person: "1.5 GiB"."""
    return " ".join(in_unit(value, value))
