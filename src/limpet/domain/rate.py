"""A rate: how many jobs may begin in a period, and the arithmetic by which every store keeps it."""

import re
from typing import NamedTuple

from limpet.domain.checks import is_whole
from limpet.domain.duration import duration, microseconds
from limpet.domain.errors import InvalidOption

_TEXT = re.compile(r"\s*(\d+)\s*/\s*(\d.*?|[a-z]+)(\s+bursty)?\s*")
# A smooth rate lets jobs that come due within this time begin together, because nobody claims more
# often; over any ten seconds that is at most a hundredth too much.
_TOGETHER_US = 100_000


class Rate(NamedTuple):
    """`count` jobs in each period, of which up to `burst` may begin at once.

    Its state is one number, `given_until`: the moment until which all starts are given out. SQL
    and Lua compute the same as `allowed`, `taken` and `next_at` do, in whole microseconds.
    """

    # A tuple has a method of that name, which nobody uses here.
    count: int  # type: ignore[assignment]
    period_us: int
    burst: int

    @property
    def step_us(self) -> int:
        """The microseconds that one job takes up, rounded up: the rate is never exceeded."""
        return -(-self.period_us // self.count)

    def allowed(self, given_until: int, now: int) -> int:
        """How many jobs may begin now; `given_until` is 0 if none has begun yet."""
        return (now + self.burst * self.step_us - max(given_until, now)) // self.step_us

    def taken(self, given_until: int, now: int, jobs: int) -> int:
        """The new `given_until` after `jobs` have begun now."""
        return max(given_until, now) + jobs * self.step_us

    def next_at(self, given_until: int, now: int) -> int:
        """When the next job may begin."""
        return max(now, given_until - (self.burst - 1) * self.step_us)

    def __str__(self) -> str:
        manner = "" if self.burst == _smooth(self.count, self.period_us) else " bursty"
        for unit, size_us in (("s", 10**6), ("m", 60 * 10**6), ("h", 3600 * 10**6)):
            if self.period_us == size_us:
                return f"{self.count}/{unit}{manner}"
        return f"{self.count}/{self.period_us / 1e6:g}s{manner}"


def _smooth(count: int, period_us: int) -> int:
    return max(1, _TOGETHER_US * count // period_us)


# A hundred years in microseconds; every store can write a thousand times as much.
LARGEST = 100 * 366 * 86_400 * 10**6


def whole_number(value: object, name: str, least: int = 0) -> int:
    """Check a number that a store keeps; a wrong one raises `ValueError` with its name."""
    if is_whole(value) and least <= value <= LARGEST:
        return value
    raise ValueError(f"{name} is no whole number from {least} to {LARGEST}")


def checked_rate(rate: Rate) -> Rate:
    """Check a rate that a store keeps; a wrong one raises `ValueError`."""
    for name, value in zip(("count", "period", "burst"), rate, strict=True):
        whole_number(value, f"the {name} of a rate", 1)
    return rate


def rate_of(text: str | Rate, *, bursty: bool = False, what: str = "rate") -> Rate:
    """Read "100/m", "5/s" or "20/10m", or refuse it with a sentence that names `what`.

    Smooth by default: jobs begin evenly over the period. `bursty`, or "100/m bursty": all may begin
    at once, and the starts come back evenly.
    """
    if isinstance(text, Rate):
        return text
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if found:
        count, per = int(found[1]), found[2]
        try:
            period_us = microseconds(duration(per if per[0].isdigit() else f"1{per}"))
        except InvalidOption:
            period_us = 0
        if count >= 1 and period_us >= count:
            at_once = count if bursty or found[3] else _smooth(count, period_us)
            return Rate(count, period_us, at_once)
    raise InvalidOption(
        f'{what} is {text!r}; write how many in which time, such as "5/s", "100/m", "20/10m" or '
        f'"100/m bursty", from 1 up and at most a million a second.'
    )
