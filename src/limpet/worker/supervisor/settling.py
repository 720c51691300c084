"""How an attempt that ended is settled, and the line that the log gets about it."""

from typing import assert_never

from limpet.domain.cause import Cause, Drained, NeighbourEnded, NotStarted, Raised, Requested
from limpet.domain.duration import spoken
from limpet.domain.ending import Ending
from limpet.domain.transition import (
    AwaitChildren,
    Cancel,
    Complete,
    Fail,
    Orphan,
    Quarantine,
    Release,
    RetryAt,
    Settlement,
    SnoozeUntil,
)
from limpet.worker.supervisor.ledger import Hold, emit_for
from limpet.worker.wire.policy import stopped


def logged(hold: Hold, ending: Ending) -> Settlement:
    """The settlement of an attempt, after its line was written to the log, if it is worth one."""
    settlement, delay = ending.settlement, ending.delay
    match settlement:
        case RetryAt(error=error):
            emit_for(hold, "job_retried", cause=error, delay=spoken(delay))
        case Fail(error=error, relaunch_at=None):
            emit_for(hold, "job_failed", cause=error)
        case Fail(error=error):
            emit_for(hold, "job_failed_for_now", cause=error, delay=spoken(delay))
        case SnoozeUntil(holds=True):
            emit_for(hold, "queue_held", delay=spoken(delay))
        case Quarantine(error=error):
            emit_for(hold, "job_quarantined", cause=error)
        case Cancel():
            emit_for(hold, "job_cancelled")
        case Complete() | SnoozeUntil() | Release() | AwaitChildren() | Orphan():
            pass  # the job is done, goes on later or elsewhere, or its loss is in the log already
        case _:
            assert_never(settlement)
    return settlement


def put_aside(hold: Hold) -> Settlement:
    """The settlement of a job whose stored data cannot be read."""
    error = Raised("PayloadInvalid", f"{hold.unreadable}; repair it, and it goes on")
    emit_for(hold, "job_quarantined", cause=error)
    return Quarantine(hold.lease, error)


def after_death(hold: Hold, cause: Cause, *, alone: bool, intended: bool) -> Settlement:
    """The settlement of a job whose executor is dead.

    `intended`: the supervisor killed the executor, because one of its jobs had to stop.
    """
    lease = hold.lease
    if hold.outcome is not None:
        return logged(hold, hold.outcome)
    if hold.stop is not None and intended:
        return _stopped(hold, hold.stop)
    if not hold.begun:
        return Release(lease, NotStarted("its executor ended"))
    if intended:
        return Release(lease, NeighbourEnded())
    emit_for(hold, "job_lost", cause=cause)
    return Orphan(lease, cause, begun=True, alone=alone)


def at_the_end(hold: Hold) -> Settlement:
    """The settlement of a job that the worker still has when it must leave."""
    if hold.outcome is not None:
        return logged(hold, hold.outcome)
    if isinstance(hold.stop, Requested):
        return _stopped(hold, hold.stop)
    if hold.begun:
        return Release(hold.lease, Drained())
    return Release(hold.lease, NotStarted("the worker was asked to stop"))


def _stopped(hold: Hold, cause: Cause) -> Settlement:
    """The settlement of a job that was requested to stop, did not, and was killed."""
    return logged(hold, stopped(hold.claimed, cause, None))
