"""A queue: a named line of jobs, its order, its cap, and how long finished jobs are kept."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from limpet.domain.duration import Duration, duration
from limpet.domain.errors import InvalidOption
from limpet.domain.state import FINAL, State

DEFAULT_QUEUE = "default"
HIGHEST_PRIORITY = 1_000
_AGEING_US = 60 * 1_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")

DEFAULT_RETENTION: Mapping[State, timedelta] = {
    State.SUCCEEDED: timedelta(days=1),
    State.CANCELLED: timedelta(days=1),
    State.FAILED: timedelta(days=30),
}

# A repeated enqueue of one id within this time is one job, so nothing younger is pruned.
REPEAT_WINDOW = timedelta(hours=1)


def sort_key(ready_at: int, priority: int) -> int:
    """The place in the line: ready time in microseconds, each priority worth 60 s of waiting."""
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
    if (
        isinstance(priority, bool)
        or not isinstance(priority, int)
        or not -HIGHEST_PRIORITY <= priority <= HIGHEST_PRIORITY
    ):
        raise InvalidOption(
            f"priority {priority!r}: write a whole number from -{HIGHEST_PRIORITY} to "
            f"{HIGHEST_PRIORITY}; higher is sooner."
        )
    return priority


@dataclass(frozen=True, slots=True, init=False)
class QueueLimit:
    """The most jobs that may wait in a queue, and what `enqueue` does when they do.

    `when_full="refuse"` raises `QueueFull` at once; "wait" tries for as long as `patience`.
    """

    cap: int
    when_full: Literal["refuse", "wait"]
    patience: timedelta

    def __init__(
        self,
        cap: int,
        when_full: Literal["refuse", "wait"] = "refuse",
        patience: Duration = timedelta(seconds=30),
    ) -> None:
        if isinstance(cap, bool) or not isinstance(cap, int) or cap < 1:
            raise InvalidOption(f"QueueLimit(cap={cap!r}): write a whole number from 1 up.")
        if when_full not in ("refuse", "wait"):
            raise InvalidOption(f'QueueLimit(when_full={when_full!r}): write "refuse" or "wait".')
        object.__setattr__(self, "cap", cap)
        object.__setattr__(self, "when_full", when_full)
        object.__setattr__(self, "patience", duration(patience, what="QueueLimit(patience=…)"))


def kept_for(given: Mapping[str, Duration] | None) -> dict[State, timedelta]:
    """The retention of each final state, the given ones over the defaults."""
    kept = dict(DEFAULT_RETENTION)
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

    `head_ready_at`: since when the job that comes first is ready, in wall time.
    """

    name: str
    paused: bool
    counts: Mapping[State, int]
    head_ready_at: int | None
