"""A circuit breaker: holds the work of some tasks back while what they depend on fails."""

from dataclasses import dataclass, replace
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When a breaker opens, and when it tries again; times are microseconds.

    It opens when, of at least `least` attempts of its `tasks` that ended within one `window`, the
    share `failure_rate` failed. Then none of them is given out for `probe_after`, and after that
    one at a time: the first of these tries that succeeds closes it. What was under way when it
    opened says nothing, whenever it ends.
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


Attempt = tuple[str, int]
"""A job and its token."""

MOST_TRIES = 100


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """A breaker as the store has it.

    `succeeded` and `failed`: attempts in the window that began at `window_at`. `opened_at`: since
    when it is not closed. `probe_at`: when the next one may be tried. Wall time in microseconds.
    `tries`: the attempts that were tried since and have not said how they ended, the newest
    `MOST_TRIES`; more than one where a try takes longer than `probe_after`, or is lost.
    """

    rules: BreakerRules
    state: BreakerState
    succeeded: int
    failed: int
    window_at: int
    opened_at: int | None
    probe_at: int | None
    tries: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Observed:
    """How attempts of a breaker's tasks ended, as their holder saw it.

    `attempts`: which they were (job, token), and whether each succeeded; among them may be tries.
    """

    breaker: str
    succeeded: int
    failed: int
    attempts: tuple[tuple[str, int, bool], ...] = ()


def observed(breaker: BreakerStatus, what: Observed, now: int) -> BreakerStatus:
    """The breaker after it was told how attempts ended."""
    rules = breaker.rules
    if breaker.state is not BreakerState.CLOSED:
        return _after_tries(breaker, what, now)
    fresh = now >= breaker.window_at + rules.window
    succeeded = what.succeeded + (0 if fresh else breaker.succeeded)
    failed = what.failed + (0 if fresh else breaker.failed)
    ended = succeeded + failed
    if ended >= rules.least and failed >= rules.failure_rate * ended:
        return BreakerStatus(rules, BreakerState.OPEN, 0, 0, now, now, now + rules.probe_after)
    since = now if fresh else breaker.window_at
    return BreakerStatus(rules, BreakerState.CLOSED, succeeded, failed, since, None, None)


def _after_tries(breaker: BreakerStatus, what: Observed, now: int) -> BreakerStatus:
    """The same for one that is not closed, where other attempts than the tries began before it
    opened: they would let it flutter.
    """
    rules = breaker.rules
    ended = {(job, token): succeeded for job, token, succeeded in what.attempts}
    of_tries = [ended[each] for each in breaker.tries if each in ended]
    if any(of_tries):
        return BreakerStatus(rules, BreakerState.CLOSED, 0, 0, now, None, None)
    if of_tries:
        again_at = now + rules.probe_after
        left = tuple(each for each in breaker.tries if each not in ended)
        return BreakerStatus(rules, BreakerState.OPEN, 0, 0, now, breaker.opened_at, again_at, left)
    return breaker


def tried(breaker: BreakerStatus, attempt: Attempt, now: int) -> BreakerStatus:
    """The breaker after one was given out to see how it ends."""
    return replace(
        breaker,
        state=BreakerState.PROBING,
        probe_at=now + breaker.rules.probe_after,
        tries=(*breaker.tries, attempt)[-MOST_TRIES:],
    )
