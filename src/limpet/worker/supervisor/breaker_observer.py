"""Counts how attempts of tasks with a breaker ended, until an exchange takes the counts along."""

from collections.abc import Iterable, Sequence

from limpet.domain.breaker import BreakerRules, Observed
from limpet.domain.cause import Cause, Raised, Stalled, TimedOut
from limpet.domain.transition import Complete, Fail, Orphan, RetryAt, Settlement

# Causes by which an attempt failed, in contrast to those by which it could not go on.
_FAILED = (Raised, TimedOut, Stalled)


class Observer:
    """The breakers of this worker's tasks, and the attempts that the store does not know yet."""

    def __init__(self) -> None:
        self.breaker_of: dict[str, str] = {}
        self._seen: dict[str, list[tuple[str, int, bool]]] = {}

    def watch(self, breakers: Iterable[BreakerRules]) -> None:
        """Count from now on for these breakers."""
        self.breaker_of = {task: breaker.name for breaker in breakers for task in breaker.tasks}

    def ended(self, task: str, settlement: Settlement) -> None:
        """Count an attempt that is over, if it succeeded or failed."""
        breaker = self.breaker_of.get(task)
        failed = _has_failed(settlement)
        if breaker is not None and failed is not None:
            attempt = (settlement.lease.job, settlement.lease.token, not failed)
            self._seen.setdefault(breaker, []).append(attempt)

    def take(self) -> tuple[Observed, ...]:
        """The counts to send now; they are not kept here any longer."""
        seen, self._seen = self._seen, {}
        return tuple(_observed(name, attempts) for name, attempts in seen.items())


def _observed(breaker: str, attempts: Sequence[tuple[str, int, bool]]) -> Observed:
    succeeded = sum(success for _, _, success in attempts)
    return Observed(breaker, succeeded, len(attempts) - succeeded, tuple(attempts))


def _has_failed(settlement: Settlement) -> bool | None:
    if isinstance(settlement, Complete):
        return False
    if isinstance(settlement, Orphan):
        return True if settlement.begun and settlement.alone else None
    cause: Cause | None = settlement.error if isinstance(settlement, RetryAt | Fail) else None
    return True if isinstance(cause, _FAILED) else None
