"""From how an attempt ended to what the store is told."""

import time
from datetime import timedelta

from limpet.domain.cause import (
    Cause,
    Drained,
    NeighbourEnded,
    NotStarted,
    Raised,
    Requested,
    cause_of,
)
from limpet.domain.duration import spoken
from limpet.domain.transition import (
    Cancel,
    Complete,
    Fail,
    FanOut,
    Orphan,
    Quarantine,
    Release,
    RetryAt,
    Settlement,
    Snooze,
)
from limpet.worker.frames import Outcome
from limpet.worker.holds import Hold, say_of
from limpet.worker.policy import stopped


def _at(delay: float) -> int:
    return time.time_ns() // 1000 + round(delay * 1e6)


def settlement_of(hold: Hold, outcome: Outcome) -> Settlement:
    """What an executor said, as the store takes it."""
    lease = hold.lease
    cause = cause_of(outcome.cause) if outcome.cause else NotStarted()
    match outcome.kind:
        case "complete":
            return Complete(lease, outcome.result, outcome.secrets, outcome.counts)
        case "retry":
            say_of(hold, "job_retried", cause=cause, delay=spoken(timedelta(seconds=outcome.delay)))
            return RetryAt(lease, _at(outcome.delay), cause)
        case "fail":
            if outcome.relaunch is None:
                say_of(hold, "job_failed", cause=cause)
                return Fail(lease, cause)
            delay = spoken(timedelta(seconds=outcome.relaunch))
            say_of(hold, "job_failed_for_now", cause=cause, delay=delay)
            return Fail(lease, cause, _at(outcome.relaunch))
        case "snooze":
            if outcome.holds:
                delay = spoken(timedelta(seconds=outcome.delay))
                say_of(hold, "queue_held", delay=delay)
            return Snooze(lease, _at(outcome.delay), outcome.holds)
        case "fan_out" if outcome.fan is not None:
            return FanOut(lease, *outcome.fan)
        case "quarantine":
            say_of(hold, "job_quarantined", cause=cause)
            error = cause if isinstance(cause, Raised) else Raised(cause.kind, str(cause))
            return Quarantine(lease, error)
        case "cancel":
            say_of(hold, "job_cancelled")
            return Cancel(lease)
        case _:
            return Release(lease, cause)


def after_death(hold: Hold, cause: Cause, *, alone: bool, intended: bool) -> Settlement:
    """What becomes of a job whose executor is dead.

    `intended`: the supervisor ended the executor, for the sake of a job that had to stop.
    """
    lease = hold.lease
    if hold.outcome is not None:
        return settlement_of(hold, hold.outcome)
    if hold.stop is not None and intended:
        return _stopped(hold, hold.stop)
    if not hold.begun:
        return Release(lease, NotStarted("its executor ended"))
    if intended:
        return Release(lease, NeighbourEnded())
    say_of(hold, "job_lost", cause=cause)
    return Orphan(lease, cause, begun=True, alone=alone)


def at_the_end(hold: Hold) -> Settlement:
    """What becomes of a job that the worker still has when it must leave."""
    if hold.outcome is not None:
        return settlement_of(hold, hold.outcome)
    if isinstance(hold.stop, Requested):
        return _stopped(hold, hold.stop)
    if hold.begun:
        return Release(hold.lease, Drained())
    return Release(hold.lease, NotStarted("the worker was asked to stop"))


def _stopped(hold: Hold, cause: Cause) -> Settlement:
    """What becomes of a job that was asked to stop, did not, and was ended."""
    outcome, _ = stopped(hold.claimed, cause, None)
    return settlement_of(hold, outcome)
