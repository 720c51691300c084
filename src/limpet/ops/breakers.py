"""Breakers: lists them, and closes one that a person resets."""

from msgspec import Struct

from limpet.domain.breaker import BreakerState, BreakerStatus
from limpet.domain.errors import BreakerNotFound
from limpet.ops.record import iso
from limpet.storage.contract.shaping import BreakerVerbs


class BreakerAnswer(Struct, frozen=True, kw_only=True):
    """A breaker: how the attempts of its tasks ended, and when it tries a job again.

    It opens when the share of failures among at least `least` attempts reaches `failure_rate` (0 to
    1).
    """

    breaker: str
    state: BreakerState
    tasks: tuple[str, ...]
    succeeded: int
    failed: int
    failure_rate: float
    least: int
    window_seconds: float
    probe_after_seconds: float
    opened_at: str | None
    probe_at: str | None


def list_breakers(store: BreakerVerbs) -> list[BreakerAnswer]:
    """Every breaker, by name."""
    return [_breaker_answer(breaker) for breaker in store.breakers()]


def reset_breaker(store: BreakerVerbs, name: str) -> None:
    """Close a breaker because a person wants it; raises `BreakerNotFound`."""
    if not store.reset_breaker(name):
        raise BreakerNotFound(name, [breaker.rules.name for breaker in store.breakers()])


def _breaker_answer(breaker: BreakerStatus) -> BreakerAnswer:
    rules = breaker.rules
    return BreakerAnswer(
        breaker=rules.name,
        state=breaker.state,
        tasks=tuple(sorted(rules.tasks)),
        succeeded=breaker.succeeded,
        failed=breaker.failed,
        failure_rate=rules.failure_rate,
        least=rules.least,
        window_seconds=rules.window / 1e6,
        probe_after_seconds=rules.probe_after / 1e6,
        opened_at=iso(breaker.opened_at),
        probe_at=iso(breaker.probe_at),
    )
