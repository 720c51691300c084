"""A queue: a named line of jobs, its order, its cap, and how long finished jobs are kept."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, NamedTuple

from limpet.domain.checks import MOST, choice, is_whole, set_fields, whole
from limpet.domain.duration import Duration, duration
from limpet.domain.errors import InvalidOption
from limpet.domain.rate import Rate, rate_of
from limpet.domain.state import FINAL, State

DEFAULT_QUEUE = "default"
HIGHEST_PRIORITY = 1_000
HEAVIEST_WEIGHT = 1_000
_AGEING_US = 60 * 1_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")

DEFAULT_RETENTION: Mapping[State, timedelta] = {
    State.SUCCEEDED: timedelta(days=1),
    State.CANCELLED: timedelta(days=1),
    State.FAILED: timedelta(days=30),
}

# Repeated enqueues of one id within this time make one job, so no younger job is pruned.
REPEAT_WINDOW = timedelta(hours=1)


def sort_key(ready_at: int, priority: int) -> int:
    """The place in the line: ready time in microseconds; one priority is worth 60 s of waiting."""
    return ready_at - priority * _AGEING_US


def checked_name(name: str, what: str = "queue") -> str:
    """Check the name of a queue or a task, or refuse it with a sentence."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidOption(
            f"{what} {name!r}: a name has 1 to 100 letters, digits, dots, colons, dashes and "
            f"underscores, and begins with a letter or a digit."
        )
    return name


def priority_level(priority: int) -> int:
    """Check a priority, or refuse it with a sentence."""
    if not is_whole(priority) or not -HIGHEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise InvalidOption(
            f"priority {priority!r}: write a whole number from -{HIGHEST_PRIORITY} to "
            f"{HIGHEST_PRIORITY}; higher is sooner."
        )
    return priority


class QueueRules(NamedTuple):
    """How much of a queue may be under way in the whole cluster; None: no limit.

    `concurrency`: how many of its jobs run at once. `rate`: how often one begins. `weight`: the
    share of this queue where several queues have jobs; None counts as 1.
    """

    concurrency: int | None = None
    rate: Rate | None = None
    weight: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether it has a limit on what may be under way."""
        return self.rate is not None or self.concurrency is not None

    def over(self, other: "QueueRules") -> "QueueRules":
        """These rules, and the others' where these have none."""
        return QueueRules._make(b if a is None else a for a, b in zip(self, other, strict=True))


NO_QUEUE_RULES = QueueRules()


def queue_rules(
    concurrency: int | None = None,
    rate: str | Rate | None = None,
    weight: int | None = None,
    *,
    what: str = "queue",
) -> QueueRules:
    """Read rules as people write them; a wrong one is refused with a sentence that names `what`."""
    return QueueRules(
        None if concurrency is None else whole(concurrency, f"{what}: concurrency", most=MOST),
        None if rate is None else rate_of(rate, what=f"{what}: rate"),
        None if weight is None else whole(weight, f"{what}: weight", most=HEAVIEST_WEIGHT),
    )


@dataclass(frozen=True, slots=True, init=False)
class QueueLimit:
    """What an app declares of a queue; each part may be left out.

    An empty `QueueLimit()` takes back what was declared before. `cap`: how many jobs may wait in
    the queue; at the cap `when_full="refuse"` raises `QueueFull` at once, and "wait" tries again
    until `patience` is over. `concurrency`: how many of its jobs run at once in the whole cluster.
    `rate`: how often one begins, as "100/m" or "100/m bursty". `weight`: its share where several
    queues have jobs. `retention`: how long its finished jobs are kept, by state, where that differs
    from the app's.
    """

    cap: int | None
    when_full: Literal["refuse", "wait"]
    patience: timedelta
    rules: QueueRules
    retention: Mapping[State, timedelta] = field(hash=False)

    def __init__(
        self,
        cap: int | None = None,
        when_full: Literal["refuse", "wait"] = "refuse",
        patience: Duration = timedelta(seconds=30),
        *,
        concurrency: int | None = None,
        rate: str | Rate | None = None,
        weight: int | None = None,
        retention: Mapping[str, Duration] | None = None,
    ) -> None:
        if cap is not None:
            whole(cap, "QueueLimit: cap", most=MOST)
        choice(when_full, "QueueLimit(when_full=…)", ("refuse", "wait"))
        if when_full == "wait" and cap is None:
            raise InvalidOption(
                'QueueLimit(when_full="wait") says what happens at a cap; give it one: cap=….'
            )
        set_fields(
            self,
            cap=cap,
            when_full=when_full,
            patience=duration(patience, what="QueueLimit(patience=…)"),
            rules=queue_rules(concurrency, rate, weight, what="QueueLimit"),
            retention=_kept(retention),
        )


def kept_for(given: Mapping[str, Duration] | None) -> dict[State, timedelta]:
    """The retention of each final state: the given one, else the default."""
    return {**DEFAULT_RETENTION, **_kept(given)}


def _kept(given: Mapping[str, Duration] | None) -> dict[State, timedelta]:
    kept = {}
    for name, value in (given or {}).items():
        if name not in FINAL:
            raise InvalidOption(
                f"retention for {name!r}: only finished jobs are pruned; name one of "
                f"{', '.join(sorted(FINAL))}."
            )
        kept[State(name)] = duration(value, what=f"retention of {name} jobs")
    return kept


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue as the store has it: how many jobs are in each state.

    Moments are wall time in microseconds. `head_ready_at`: since when the first job in line is
    ready. `rules`: the rules in force; `adjusted`: those among them that were set at run time.
    `held_until`: nothing is claimed before then, because a job reported a rate limit. `next_at`:
    when the rate lets the next job begin; None if it does now. `draining`: the queue takes in no
    new jobs.
    """

    name: str
    paused: bool
    counts: Mapping[State, int]
    head_ready_at: int | None
    rules: QueueRules = NO_QUEUE_RULES
    adjusted: QueueRules = NO_QUEUE_RULES
    held_until: int | None = None
    next_at: int | None = None
    draining: bool = False
