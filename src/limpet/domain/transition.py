"""Settlements: how an attempt ended, as constructors, so that nobody assigns a state.

A holder reports one of these for each attempt; the store applies it only while the job runs
under that session and token.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from limpet.domain.cause import Cause, Raised
from limpet.domain.errors import LeaseLost
from limpet.domain.job import Counters
from limpet.domain.lease import Lease
from limpet.domain.state import Move, State

MOST_ORPHANS = 10
MOST_STRIKES = 3


class Complete(NamedTuple):
    """running → succeeded, with the result as JSON and the paths in it that are secret.

    `counts`: what the job counted, by name; added to the totals of its queue as `count:NAME`.
    """

    lease: Lease
    result: str = "null"
    secrets: tuple[str, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()

    def __repr__(self) -> str:
        return f"<Complete {self.lease}>"  # the result may hold secrets


@dataclass(frozen=True, slots=True)
class RetryAt:
    """running → scheduled for `at` (wall time, microseconds); one failure is spent."""

    lease: Lease
    at: int
    error: Cause


@dataclass(frozen=True, slots=True)
class SnoozeUntil:
    """running → scheduled for `at` (wall time, microseconds); nothing is spent.

    `holds`: until `at` nobody claims any other job of its queue either.
    """

    lease: Lease
    at: int
    holds: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """running → failed; one failure is spent.

    `relaunch_at`: when `promote` opens a new round of the job (wall time, microseconds).
    """

    lease: Lease
    error: Cause
    relaunch_at: int | None = None


@dataclass(frozen=True, slots=True)
class Quarantine:
    """running → quarantined: the payload does not fit the task, so a retry would not help."""

    lease: Lease
    error: Raised


@dataclass(frozen=True, slots=True)
class Release:
    """running → ready in its old place, uncharged."""

    lease: Lease
    cause: Cause


@dataclass(frozen=True, slots=True)
class Cancel:
    """running → cancelled: the attempt is confirmed to be over."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Orphan:
    """running → ready: the process that ran the attempt died, its session did not.

    `alone`: no other job ran in that process, so the loss is the job's own doing.
    """

    lease: Lease
    cause: Cause
    begun: bool
    alone: bool


@dataclass(frozen=True, slots=True)
class AwaitChildren:
    """running → blocked until the children are finished, then the job runs again; nothing is spent.

    `flow`: the staged flow of the children, in `chunks` parts; the same step commits it. If a
    cancellation was requested, running → cancelled, and the children are dropped; if a part of the
    flow is missing, running → failed.
    """

    lease: Lease
    flow: str
    chunks: int
    children: int


Settlement: TypeAlias = (
    Complete | RetryAt | SnoozeUntil | Fail | Quarantine | Release | Cancel | Orphan | AwaitChildren
)

MOVE_OF: dict[type[Settlement], Move] = {
    Complete: Move.COMPLETE,
    RetryAt: Move.RETRY,
    SnoozeUntil: Move.SNOOZE,
    Fail: Move.FAIL,
    Quarantine: Move.QUARANTINE,
    Release: Move.RELEASE,
    Cancel: Move.CANCEL,
    Orphan: Move.ORPHAN,
    AwaitChildren: Move.FAN_OUT,
}

Answer: TypeAlias = Literal["already", "gone", "lost"]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A settlement that was not applied.

    `already`: this is a repeat, and the first one was applied. `gone`: the job was pruned.
    `lost`: the lease is over (`LeaseLost`).
    """

    lease: Lease
    answer: Answer

    @property
    def error(self) -> LeaseLost | None:
        """The error for a late holder; None for `already` and `gone`."""
        return LeaseLost(*self.lease) if self.answer == "lost" else None


@dataclass(frozen=True, slots=True)
class Loss:
    """What the loss of an attempt does to its job: new counters, and the next state."""

    target: State
    counters: Counters
    suspect: bool
    last_run: bool
    capped: Literal["orphans", "strikes"] | None


def after_loss(
    before: Counters,
    *,
    begun: bool,
    charged: bool,
    alone: bool | None,
    last_run: bool,
    has_orphan_hook: bool,
    suspect: bool = False,
) -> Loss:
    """Decide what a lost attempt costs its job.

    `alone` is None when the whole worker was lost: then no job becomes a suspect. An attempt that
    had not begun, or whose loss is not charged, costs nothing, and a suspect stays one, because it
    has not run alone yet. At a cap the job fails; with an orphan hook it gets one last run first,
    and a death in that run is the end.
    """
    if not begun or not charged:
        return Loss(State.READY, before, suspect, last_run=last_run, capped=None)
    counters = Counters(
        before.failures, before.orphans + 1, before.strikes + (1 if alone is True else 0)
    )
    capped: Literal["orphans", "strikes"] | None = None
    if counters.strikes >= MOST_STRIKES:
        capped = "strikes"
    elif counters.orphans >= MOST_ORPHANS:
        capped = "orphans"
    # A suspect stays one until it has run alone.
    suspect = suspect or alone is not None
    if capped is None:
        return Loss(State.READY, counters, suspect, last_run=False, capped=None)
    if has_orphan_hook and not last_run:
        return Loss(State.READY, counters, suspect, last_run=True, capped=capped)
    return Loss(State.FAILED, counters, suspect, last_run=last_run, capped=capped)
