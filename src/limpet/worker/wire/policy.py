"""The retry and relaunch policies of a job, and how they end an attempt.

The part of a policy that travels with the job is known everywhere. The part that is code of the
registered task is known only in the executor.
"""

import random
import time
from dataclasses import replace
from datetime import timedelta

import msgspec

from limpet.domain.cause import Cause, DeadlinePassed, Drained, HostPressed, Requested
from limpet.domain.duration import microseconds
from limpet.domain.ending import Ending
from limpet.domain.errors import AttemptStopped
from limpet.domain.job import ClaimedJob
from limpet.domain.relaunch import Relaunch
from limpet.domain.retry import Retry, judge
from limpet.domain.transition import Cancel, Fail, Release


def policy_of(options: str, registered: Retry | None) -> Retry:
    """The retry policy that travels with a job, completed by the code of the registered one."""
    if options == "{}":
        return registered or Retry()
    record = msgspec.json.decode(options).get("retry")
    return Retry.from_record(record).with_code_of(registered) if record else registered or Retry()


def relaunch_of(options: str, registered: Relaunch | None) -> Relaunch | None:
    """The relaunch policy of a job, put together like its retry policy."""
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
) -> Ending:
    """How an attempt that raised ends."""
    policy = policy_of(claimed.options, registered)
    failures = claimed.counters.failures
    now = time.time_ns() // 1000
    ending = judge(claimed.lease, error, policy, failures, chance=random.random(), now=now)
    if not isinstance(ending.settlement, Fail) or ending.final:
        return ending
    wait = _wait_for_relaunch(claimed, error, relaunch, now)
    if wait is None:
        return ending
    failed = replace(ending.settlement, relaunch_at=now + microseconds(wait))
    return ending._replace(settlement=failed, delay=wait)


def _wait_for_relaunch(
    claimed: ClaimedJob, error: BaseException, registered: Relaunch | None, now: int
) -> timedelta | None:
    """How long until a failed job is relaunched; None if never, or only after its deadline."""
    policy = relaunch_of(claimed.options, registered)
    relaunches = claimed.round - 1 - claimed.reopened
    wait = policy.wait_after(relaunches, error) if policy is not None else None
    if wait is None:
        return None
    if claimed.deadline_at is not None and now + microseconds(wait) >= claimed.deadline_at:
        return None
    return wait


def stopped(
    claimed: ClaimedJob,
    cause: Cause,
    registered: Retry | None,
    relaunch: Relaunch | None = None,
) -> Ending:
    """How an attempt ends that was requested to stop and stopped, or was ended."""
    match cause:
        case Requested():
            return Ending(Cancel(claimed.lease))
        case Drained() | HostPressed():
            return Ending(Release(claimed.lease, cause))
        case DeadlinePassed():
            return Ending(Fail(claimed.lease, cause))
        case _:
            return judged(claimed, AttemptStopped(cause), registered, relaunch)
