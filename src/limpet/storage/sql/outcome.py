"""Decides what an outcome does to a held job; each store in SQL writes the decision.

A decision needs only the row and the outcome; the store has checked that the lease holds.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, assert_never

from limpet.domain.cause import (
    Cause,
    DeadlinePassed,
    Expired,
    TooManyOrphans,
    TooManyStrikes,
)
from limpet.domain.event import EventName
from limpet.domain.job import Counters
from limpet.domain.lease import Lease
from limpet.domain.queue import sort_key
from limpet.domain.state import FINAL, WAITING, Move, State
from limpet.domain.transition import (
    AwaitChildren,
    Cancel,
    Complete,
    Fail,
    Loss,
    Orphan,
    Quarantine,
    Release,
    RetryAt,
    Settlement,
    SnoozeUntil,
    after_loss,
)

# By one of these moves at the end of its attempt, a suspect has shown that it can run alone.
_RAN_ALONE = frozenset({Move.RETRY, Move.SNOOZE, Move.FAN_OUT})


class HeldRow(NamedTuple):
    """The row of a job whose lease holds."""

    n: int
    lease: Lease
    queue: str
    sort_key: int
    ready_at: int
    counters: Counters
    last_run: bool
    begun: bool
    claimed_at: int | None
    deadline_at: int | None
    cancel_requested: bool
    priority: int
    suspect: bool
    expires_at: int | None


class Facts(Protocol):
    """Facts about a held job that the store reads only when they matter."""

    def has_orphan_hook(self, job: HeldRow) -> bool: ...

    def request(self, job: HeldRow) -> Cause:
        """The cause of the cancellation request."""
        ...


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """An event for the timeline."""

    event: EventName
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a held job goes, and everything that is written about it.

    `entries`: for the timeline. `holder`: the session that stays on the row; None for a dead one,
    so that its repeats are never answered `already`. `settled`: the move that was accepted, by
    which its repeat is recognised. `error`: the job's new error, None to keep the old one.
    """

    move: Move
    target: State
    entries: tuple[TimelineEntry, ...]
    holder: str | None
    settled: Move | None
    sort_key: int
    ready_at: int
    counters: Counters
    suspect: bool
    last_run: bool
    expires_at: int | None
    lapses_at: int | None
    error: Cause | None

    @property
    def is_final(self) -> bool:
        return self.target in FINAL


def decide(row: HeldRow, settlement: Settlement, facts: Facts) -> Decision:
    """Decide what the outcome of an attempt does."""
    match settlement:
        case Complete():
            return _moved(row, Move.COMPLETE, State.SUCCEEDED, (), row.counters)
        case RetryAt(at=at, error=error):
            return _again(row, Move.RETRY, at, error, facts)
        case SnoozeUntil(at=at):
            return _again(row, Move.SNOOZE, at, None, facts)
        case Fail(error=error):
            entries = (TimelineEntry(EventName.FAILED, error),)
            return _moved(row, Move.FAIL, State.FAILED, entries, _failed_once(row))
        case Quarantine() if row.cancel_requested:
            # Nobody would repair a job that was cancelled; it would wait for ever.
            return _cancelled(row, Move.CANCEL, None, row.counters, facts)
        case Quarantine(error=error):
            entries = (TimelineEntry(EventName.QUARANTINED, error),)
            return _moved(row, Move.QUARANTINE, State.QUARANTINED, entries, row.counters)
        case AwaitChildren() if row.cancel_requested:
            return _cancelled(row, Move.FAN_OUT, None, row.counters, facts)
        case AwaitChildren():
            entries = (TimelineEntry(EventName.FANNED_OUT, None),)
            return _moved(row, Move.FAN_OUT, State.BLOCKED, entries, row.counters)
        case Cancel():
            return _cancelled(row, Move.CANCEL, None, row.counters, facts)
        case Release(cause=cause):
            return released(row, cause, facts)
        case Orphan(cause=cause, begun=begun, alone=alone):
            return lost(
                row, cause, facts, move=Move.ORPHAN, begun=begun, alone=alone, accepted=True
            )
        case _:
            assert_never(settlement)


def released(row: HeldRow, cause: Cause, facts: Facts) -> Decision:
    """Running → ready in its old place, uncharged; → cancelled if that was requested."""
    if row.cancel_requested:
        return _cancelled(row, Move.RELEASE, None, row.counters, facts)
    entries = (TimelineEntry(EventName.RELEASED, cause),)
    return _moved(row, Move.RELEASE, State.READY, entries, row.counters)


def lost(
    row: HeldRow,
    cause: Cause,
    facts: Facts,
    *,
    move: Move,
    begun: bool,
    alone: bool | None,
    accepted: bool,
) -> Decision:
    """Running → ready, failed at a cap, or cancelled if that was requested.

    `accepted`: the holder itself reported the loss, so its repeat is recognised. Otherwise the
    holder is dead, and any further report of it is late.
    """
    if row.cancel_requested:
        return _cancelled(row, move, cause, row.counters, facts, accepted=accepted)
    loss = after_loss(
        row.counters,
        begun=begun,
        charged=cause.charged,
        alone=alone,
        suspect=row.suspect,
        last_run=row.last_run,
        has_orphan_hook=facts.has_orphan_hook(row),
    )
    entries: tuple[TimelineEntry, ...] = (
        TimelineEntry(EventName.ORPHANED if move is Move.ORPHAN else EventName.RECOVERED, cause),
    )
    if loss.target is State.FAILED:
        # The loss first, then the failure that follows, so that the timeline lists every cause.
        entries += (TimelineEntry(EventName.FAILED, _capped(loss)),)
    return _moved(
        row, move, loss.target, entries, loss.counters, loss=loss, accepted=accepted, begun=begun
    )


def lapsed(
    expires_at: int | None, deadline_at: int | None, now: int
) -> tuple[State, TimelineEntry]:
    """Decide what becomes of a waiting job that is past its expiry or deadline."""
    if deadline_at is not None and deadline_at <= now:
        return State.FAILED, TimelineEntry(EventName.FAILED, DeadlinePassed(at=deadline_at))
    return State.CANCELLED, TimelineEntry(EventName.CANCELLED, Expired(at=expires_at or now))


def _failed_once(row: HeldRow) -> Counters:
    before = row.counters
    return Counters(before.failures + 1, before.orphans, before.strikes)


def _again(row: HeldRow, move: Move, at: int, error: Cause | None, facts: Facts) -> Decision:
    counters = _failed_once(row) if move is Move.RETRY else row.counters
    if row.cancel_requested:
        return _cancelled(row, move, error, counters, facts)
    if row.deadline_at is not None and at >= row.deadline_at:
        entries = (TimelineEntry(EventName.FAILED, error or DeadlinePassed(at=row.deadline_at)),)
        return _moved(row, move, State.FAILED, entries, counters)
    event = EventName.RETRIED if move is Move.RETRY else EventName.SNOOZED
    return _moved(row, move, State.SCHEDULED, (TimelineEntry(event, error),), counters, ready_at=at)


def _capped(loss: Loss) -> Cause:
    if loss.capped == "strikes":
        return TooManyStrikes(count=loss.counters.strikes)
    return TooManyOrphans(count=loss.counters.orphans)


def _cancelled(
    row: HeldRow,
    move: Move,
    error: Cause | None,
    counters: Counters,
    facts: Facts,
    accepted: bool = True,
) -> Decision:
    entries = (TimelineEntry(EventName.CANCELLED, error or facts.request(row)),)
    return _moved(row, move, State.CANCELLED, entries, counters, accepted=accepted)


def _moved(
    row: HeldRow,
    move: Move,
    target: State,
    entries: tuple[TimelineEntry, ...],
    counters: Counters,
    *,
    ready_at: int | None = None,
    loss: Loss | None = None,
    accepted: bool = True,
    begun: bool = False,
) -> Decision:
    # `expires` counts only until the first start; only waiting jobs can lapse.
    started = row.begun or begun or move in _RAN_ALONE
    expires_at = None if started else row.expires_at
    ends = [at for at in (expires_at, row.deadline_at) if at is not None]
    # A job that was handed back or lost has no error of its own, unless it ended by that.
    handed_back = target is State.READY
    return Decision(
        move=move,
        target=target,
        entries=entries,
        holder=row.lease.session if accepted else None,
        settled=move if accepted else None,
        sort_key=row.sort_key if ready_at is None else sort_key(ready_at, row.priority),
        ready_at=row.ready_at if ready_at is None else ready_at,
        counters=counters,
        suspect=loss.suspect if loss else row.suspect and move not in _RAN_ALONE,
        last_run=loss.last_run if loss else row.last_run,
        expires_at=expires_at,
        lapses_at=min(ends, default=None) if target in WAITING else None,
        error=None if handed_back or not entries else entries[-1].cause,
    )
