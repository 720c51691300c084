"""What holds the work of some tasks back, as plain data, and how a person lets it go on."""

from limpet.domain.breaker import Breaker
from limpet.domain.errors import BreakerNotFound
from limpet.ops.record import Record, iso
from limpet.storage.shaping import BreakerVerbs


def list_breakers(store: BreakerVerbs) -> list[Record]:
    """Every breaker, by name."""
    return [_breaker_record(each) for each in store.breakers()]


def reset_breaker(store: BreakerVerbs, name: str) -> None:
    """Close a breaker on a person's word; raises `BreakerNotFound`."""
    if not store.reset_breaker(name):
        raise BreakerNotFound(name, [each.rules.name for each in store.breakers()])


def _breaker_record(breaker: Breaker) -> Record:
    rules = breaker.rules
    return {
        "breaker": rules.name,
        "state": breaker.state.value,
        "tasks": sorted(rules.tasks),
        "succeeded": breaker.succeeded,
        "failed": breaker.failed,
        "failure_rate": rules.failure_rate,
        "least": rules.least,
        "window_seconds": rules.window / 1e6,
        "probe_after_seconds": rules.probe_after / 1e6,
        "opened_at": iso(breaker.opened_at),
        "probe_at": iso(breaker.probe_at),
    }
