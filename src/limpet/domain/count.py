"""Whole numbers as people write them: caps, limits, weights."""

from limpet.domain.errors import InvalidOption

MOST = 1_000_000_000


def counted(value: int, what: str, most: int = MOST) -> int:
    """Check a whole number from 1 up, or refuse it with a sentence that names `what`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not 1 <= value <= most:
        raise InvalidOption(f"{what} is {value!r}; write a whole number from 1 to {most:,}.")
    return value
