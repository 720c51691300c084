"""The policies of a job, retry and relaunch, and what becomes of an attempt by them.

What travels with the job is known everywhere; what only the registered task can say, only where
the user's code is.
"""

import random
import time
from typing import assert_never

import msgspec

from limpet.domain.cause import Cause, DeadlinePassed, Drained, HostPressed, Requested
from limpet.domain.errors import AttemptStopped
from limpet.domain.job import ClaimedJob
from limpet.domain.relaunch import Relaunch
from limpet.domain.retry import Retry, judge
from limpet.domain.verdict import Again, GiveUp, Later
from limpet.worker.frames import Outcome


def policy_of(options: str, registered: Retry | None) -> Retry:
    """The retry policy that travels with a job, with what only code can say."""
    if options == "{}":
        return registered or Retry()
    record = msgspec.json.decode(options).get("retry")
    return Retry.from_record(record).with_code_of(registered) if record else registered or Retry()


def relaunch_of(options: str, registered: Relaunch | None) -> Relaunch | None:
    """As `policy_of`, of the other chances that a failed job gets."""
    if "relaunch" not in options:
        return registered
    record = msgspec.json.decode(options).get("relaunch")
    policy = Relaunch.from_record(record)
    return policy.with_code_of(registered) if policy is not None else registered


def judged(
    claimed: ClaimedJob,
    error: BaseException,
    registered: Retry | None,
    relaunch: Relaunch | None = None,
) -> tuple[Outcome, str]:
    """What becomes of a job whose attempt raised, and what its log is to say about that."""
    policy = policy_of(claimed.options, registered)
    verdict = judge(error, policy, claimed.counters.failures, random.random())
    match verdict:
        case Again(delay=delay, cause=cause, note=note):
            return Outcome(claimed.lease, "retry", delay.total_seconds(), cause.record()), note
        case GiveUp(cause=cause, final=final):
            again = None if final else _relaunched(claimed, error, relaunch)
            return Outcome(claimed.lease, "fail", cause=cause.record(), relaunch=again), ""
        case Later(delay=delay, holds=holds):
            return Outcome(claimed.lease, "snooze", delay.total_seconds(), holds=holds), ""
        case _:
            assert_never(verdict)


def _relaunched(
    claimed: ClaimedJob, error: BaseException, registered: Relaunch | None
) -> float | None:
    """The seconds until a failed job gets another chance, unless that is after its deadline."""
    policy = relaunch_of(claimed.options, registered)
    relaunches = claimed.round - 1 - claimed.reopened
    wait = policy.wait_after(relaunches, error) if policy is not None else None
    if wait is None:
        return None
    seconds = wait.total_seconds()
    if claimed.deadline_at is not None and time.time() + seconds >= claimed.deadline_at / 1e6:
        return None
    return seconds


def stopped(
    claimed: ClaimedJob,
    cause: Cause,
    registered: Retry | None,
    relaunch: Relaunch | None = None,
) -> tuple[Outcome, str]:
    """The same of one that was asked to stop, and did or was ended."""
    match cause:
        case Requested():
            return Outcome(claimed.lease, "cancel"), ""
        case Drained() | HostPressed():
            return Outcome(claimed.lease, "release", cause=cause.record()), ""
        case DeadlinePassed():
            return Outcome(claimed.lease, "fail", cause=cause.record()), ""
        case _:
            return judged(claimed, AttemptStopped(cause), registered, relaunch)
