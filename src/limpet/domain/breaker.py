"""A circuit breaker: holds the work of some tasks back while what they depend on fails."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When a breaker opens, and when it tries again; times are microseconds.

    It opens when, of at least `least` attempts of its `tasks` that ended within one `window`, the
    share `failure_rate` failed. Then none of them is given out for `probe_after`, and after that
    one at a time: the first that succeeds closes it. What was under way when it opened and ends
    before the first try says nothing.
    """

    name: str
    tasks: frozenset[str]
    failure_rate: float
    least: int
    window: int
    probe_after: int


class BreakerState(StrEnum):
    """`closed`: work flows. `open`: it is held back. `probing`: one attempt is being tried."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


@dataclass(frozen=True, slots=True)
class Breaker:
    """A breaker as the store has it.

    `succeeded` and `failed`: attempts in the window that began at `window_at`. `opened_at`: since
    when it is not closed. `probe_at`: when the next one may be tried. Wall time in microseconds.
    """

    rules: BreakerRules
    state: BreakerState
    succeeded: int
    failed: int
    window_at: int
    opened_at: int | None
    probe_at: int | None


@dataclass(frozen=True, slots=True)
class Observed:
    """How attempts of a breaker's tasks ended, as their holder saw it."""

    breaker: str
    succeeded: int
    failed: int


def observed(breaker: Breaker, what: Observed, now: int) -> Breaker:
    """The breaker after it was told how attempts ended."""
    rules = breaker.rules
    if breaker.state is BreakerState.OPEN:
        return breaker  # what ends now began before it opened, and is no try
    if breaker.state is BreakerState.PROBING:
        if what.succeeded:
            return Breaker(rules, BreakerState.CLOSED, 0, 0, now, None, None)
        if what.failed:
            again_at = now + rules.probe_after
            return Breaker(rules, BreakerState.OPEN, 0, 0, now, breaker.opened_at, again_at)
        return breaker
    fresh = now >= breaker.window_at + rules.window
    succeeded = what.succeeded + (0 if fresh else breaker.succeeded)
    failed = what.failed + (0 if fresh else breaker.failed)
    ended = succeeded + failed
    if ended >= rules.least and failed >= rules.failure_rate * ended:
        return Breaker(rules, BreakerState.OPEN, 0, 0, now, now, now + rules.probe_after)
    since = now if fresh else breaker.window_at
    return Breaker(rules, BreakerState.CLOSED, succeeded, failed, since, None, None)
