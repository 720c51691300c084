"""A circuit breaker: holds back the work of some tasks while what they depend on fails."""

from dataclasses import dataclass, replace
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When a breaker opens, and when it tries again; times are microseconds.

    It opens when at least `least` attempts of its `tasks` ended within one `window`, and at least
    the share `failure_rate` of them failed. Then no job of these tasks is given out for
    `probe_after`, and after that one at a time, as a try: the first try that succeeds closes the
    breaker. Attempts that were under way when it opened do not count, whenever they end.
    """

    name: str
    tasks: frozenset[str]
    failure_rate: float
    least: int
    window: int
    probe_after: int


class BreakerState(StrEnum):
    """`closed`: work flows. `open`: work is held back. `probing`: a try is under way."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


Attempt = tuple[str, int]
"""A job and its token."""

MOST_TRIES = 100


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """A breaker as the store has it.

    Moments are wall time in microseconds. `succeeded` and `failed`: attempts in the window that
    began at `window_at`. `opened_at`: since when it is not closed. `probe_at`: when the next try
    may begin. `tries`: the newest `MOST_TRIES` tries whose end is not known yet; there is more than
    one if a try takes longer than `probe_after`, or is lost.
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
    """How attempts of a breaker's tasks ended, as their holder observed.

    `attempts`: the job and token of each, and whether it succeeded; some may be tries.
    """

    breaker: str
    succeeded: int
    failed: int
    attempts: tuple[tuple[str, int, bool], ...] = ()


def observed(breaker: BreakerStatus, what: Observed, now: int) -> BreakerStatus:
    """The breaker after its observers reported how attempts ended."""
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
    """The same for a breaker that is not closed: only its tries count.

    All other attempts began before it opened; if they counted, it would flutter.
    """
    rules = breaker.rules
    ended = {(job, token): succeeded for job, token, succeeded in what.attempts}
    of_tries = [ended[attempt] for attempt in breaker.tries if attempt in ended]
    if any(of_tries):
        return BreakerStatus(rules, BreakerState.CLOSED, 0, 0, now, None, None)
    if of_tries:
        again_at = now + rules.probe_after
        left = tuple(attempt for attempt in breaker.tries if attempt not in ended)
        return BreakerStatus(rules, BreakerState.OPEN, 0, 0, now, breaker.opened_at, again_at, left)
    return breaker


def tried(breaker: BreakerStatus, attempt: Attempt, now: int) -> BreakerStatus:
    """The breaker after an attempt was given out as a try."""
    return replace(
        breaker,
        state=BreakerState.PROBING,
        probe_at=now + breaker.rules.probe_after,
        tries=(*breaker.tries, attempt)[-MOST_TRIES:],
    )
