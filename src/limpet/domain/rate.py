"""A rate: how many jobs may begin in a time, and the arithmetic by which every store keeps it."""

import re
from typing import NamedTuple

from limpet.domain.checks import is_whole
from limpet.domain.duration import duration, microseconds
from limpet.domain.errors import InvalidOption

_TEXT = re.compile(r"\s*(\d+)\s*/\s*(\d.*?|[a-z]+)(\s+bursty)?\s*")
# A smooth rate lets through together what comes due within this time, because nobody asks for jobs
# more often; over any ten seconds that is a hundredth too much at the most.
_TOGETHER = 100_000


class Rate(NamedTuple):
    """So many jobs in a period (microseconds), of which up to `burst` may begin at once.

    Kept by one number, the moment until which everything is given out. Stores that reckon in SQL
    or Lua do as `room`, `taken` and `next_at` do, in whole microseconds.
    """

    # A tuple has a method of that name, which nobody uses here.
    count: int  # type: ignore[assignment]
    period: int
    burst: int

    @property
    def step(self) -> int:
        """The time that one job takes up; rounded up, so that the rate is never exceeded."""
        return -(-self.period // self.count)

    def room(self, given_until: int, now: int) -> int:
        """How many may begin now; `given_until` is 0 where nothing has begun yet."""
        return (now + self.burst * self.step - max(given_until, now)) // self.step

    def taken(self, given_until: int, now: int, jobs: int) -> int:
        """`given_until` after so many have begun now."""
        return max(given_until, now) + jobs * self.step

    def next_at(self, given_until: int, now: int) -> int:
        """When one may begin."""
        return max(now, given_until - (self.burst - 1) * self.step)

    def __str__(self) -> str:
        manner = "" if self.burst == _smooth(self.count, self.period) else " bursty"
        for unit, size in (("s", 10**6), ("m", 60 * 10**6), ("h", 3600 * 10**6)):
            if self.period == size:
                return f"{self.count}/{unit}{manner}"
        return f"{self.count}/{self.period / 1e6:g}s{manner}"


def _smooth(count: int, period: int) -> int:
    return max(1, _TOGETHER * count // period)


# A hundred years in microseconds: a thousand times that is a number that every store can write.
LARGEST = 100 * 366 * 86_400 * 10**6


def whole_number(value: object, name: str, least: int = 0) -> int:
    """A number as a store keeps it, or a `ValueError` that names it."""
    if is_whole(value) and least <= value <= LARGEST:
        return value
    raise ValueError(f"{name} is no whole number from {least} to {LARGEST}")


def checked_rate(rate: Rate) -> Rate:
    """A rate as a store keeps it, or a `ValueError` where that is none."""
    for name, value in zip(("count", "period", "burst"), rate, strict=True):
        whole_number(value, f"the {name} of a rate", 1)
    return rate


def rate_of(text: str | Rate, *, bursty: bool = False, what: str = "rate") -> Rate:
    """Read "100/m", "5/s" or "20/10m", or refuse it with a sentence that names `what`.

    Smooth by default: evenly over the time. `bursty`, or "100/m bursty": all of them may begin at
    once, and come back evenly.
    """
    if isinstance(text, Rate):
        return text
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if found:
        count, per = int(found[1]), found[2]
        try:
            period = microseconds(duration(per if per[0].isdigit() else f"1{per}"))
        except InvalidOption:
            period = 0
        if count >= 1 and period >= count:
            at_once = count if bursty or found[3] else _smooth(count, period)
            return Rate(count, period, at_once)
    raise InvalidOption(
        f'{what} is {text!r}; write how many in which time, such as "5/s", "100/m", "20/10m" or '
        f'"100/m bursty", from 1 up and at most a million a second.'
    )
