"""What the zygote found when it imported the app: all that the supervisor knows of the app."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta

from limpet.domain.breaker import BreakerRules
from limpet.domain.duration import LONGEST, duration
from limpet.domain.errors import LimpetError
from limpet.domain.queue import QueueRules, checked_name, queue_rules
from limpet.domain.state import FINAL, State
from limpet.domain.weight import Weight
from limpet.settings.general import DEFAULT_PAYLOAD_LIMIT
from limpet.storage.records.store_settings import SchedulePiece, read
from limpet.worker.wire.bounds import NotUnderstood

MOST_TASKS, MOST_QUEUES, MOST_BREAKERS, MOST_SCHEDULES = 100_000, 100_000, 10_000, 100_000
LARGEST_PAYLOAD = 2**30
_LONGEST_URL, _MOST_THREADS = 10_000, 1_000_000
_MOST_MICROSECONDS = 2**62
_MOST_ATTEMPTS = 2**53

Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=LONGEST.total_seconds())]
Retention: TypeAlias = dict[State, timedelta]


class TaskFacts(NamedTuple):
    """What the supervisor must know of a task."""

    name: str
    in_lane: bool
    has_hook: bool
    takes_context: bool
    relaunches: bool = False
    weight: Weight | None = None
    gives_way: bool = False


class Catalog(NamedTuple):
    """The tasks, queues and schedules that an app declares.

    `queues`: the limits of each. `queue_retention`: how long the jobs of each are kept.
    `schedules`: by id, each as the text of a `SchedulePiece`. `removes_schedules`: whether
    schedules that the app no longer declares are removed. `payload_limit`: the most bytes of a
    result.
    """

    url: Annotated[str, Meta(max_length=_LONGEST_URL)]
    tasks: Annotated[list[TaskFacts], Meta(max_length=MOST_TASKS)]
    retention: dict[str, Seconds]
    threads: Annotated[int, Meta(ge=0, le=_MOST_THREADS)]
    contained: bool
    queues: Annotated[dict[str, QueueRules], Meta(max_length=MOST_QUEUES)]
    queue_retention: Annotated[dict[str, dict[str, Seconds]], Meta(max_length=MOST_QUEUES)]
    breakers: Annotated[list[BreakerRules], Meta(max_length=MOST_BREAKERS)]
    schedules: Annotated[dict[str, str], Meta(max_length=MOST_SCHEDULES)]
    removes_schedules: bool
    payload_limit: Annotated[int, Meta(ge=0, le=LARGEST_PAYLOAD)] = DEFAULT_PAYLOAD_LIMIT

    def names(self, *, in_lane: bool) -> frozenset[str]:
        """The tasks that run in a lane, or in the loop."""
        return frozenset(facts.name for facts in self.tasks if facts.in_lane == in_lane)

    def weights(self) -> dict[str, Weight]:
        """The weights of the tasks that have one; all others are light."""
        return {facts.name: facts.weight for facts in self.tasks if facts.weight is not None}

    def giving_way(self) -> frozenset[str]:
        """The tasks whose attempts are handed back when the host is pressed for memory."""
        return frozenset(facts.name for facts in self.tasks if facts.gives_way)

    def bounded(self) -> list[str]:
        """The queues with a concurrency limit or a rate."""
        return [name for name, rules in self.queues.items() if rules.is_bounded]

    def retentions(self) -> tuple[Retention, dict[str, Retention]]:
        """How long finished jobs are kept: by state, and for queues that differ by queue."""
        by_queue = {queue: _kept(kept) for queue, kept in self.queue_retention.items()}
        return _kept(self.retention), by_queue


def _kept(seconds: dict[str, float]) -> Retention:
    return {State(name): timedelta(seconds=kept) for name, kept in seconds.items()}


def check_catalog(catalog: Catalog) -> None:
    """Raise `NotUnderstood` for what no app can declare: user code runs in the zygote too."""
    try:
        for _ in _refusals(catalog):
            pass
    except (LimpetError, ValueError, OverflowError, ZeroDivisionError, RecursionError) as error:
        raise NotUnderstood(f"the catalog of the app cannot be used: {error}") from None


def _refusals(catalog: Catalog) -> Iterator[object]:
    """Build every value anew, as the app had to; building a wrong one raises."""
    for facts in catalog.tasks:
        yield checked_name(facts.name, "task")
        if (weight := facts.weight) is not None:
            yield Weight(weight.cpu, weight.memory, heavy=weight.heavy)
    for queue, rules in catalog.queues.items():
        yield checked_name(queue)
        yield queue_rules(rules.concurrency, rules.rate, rules.weight)
        if rules.rate is not None and not 1 <= rules.rate.count <= rules.rate.period_us:
            raise ValueError(f"queue {queue} has an impossible rate")
        if rules.rate is not None:
            yield _number(rules.rate.period_us), _number(rules.rate.burst)
    for kept in (catalog.retention, *catalog.queue_retention.values()):
        if not kept.keys() <= {str(state) for state in FINAL}:
            raise ValueError("only finished jobs are pruned")
        yield [duration(seconds) for seconds in kept.values()]
    for breaker in catalog.breakers:
        yield checked_name(breaker.name, "breaker")
        yield [_number(rule) for rule in (breaker.least, breaker.window, breaker.probe_after)]
        if not 0 <= breaker.failure_rate <= 1:
            raise ValueError(f"breaker {breaker.name} has an impossible failure rate")
    for text in catalog.schedules.values():
        yield read(SchedulePiece, text)


def _number(value: int) -> int:
    if not 0 <= value <= _MOST_MICROSECONDS:
        raise ValueError("a number is out of bounds")
    return value
