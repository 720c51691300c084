"""The retry policy of a job, and what becomes of an attempt by it.

What travels with the job is known everywhere; what only the registered task can say, only where
the user's code is.
"""

import random
from typing import assert_never

import msgspec

from limpet.domain.cause import Cause, DeadlinePassed, Drained, Requested
from limpet.domain.errors import AttemptStopped
from limpet.domain.job import ClaimedJob
from limpet.domain.retry import Retry, judge
from limpet.domain.verdict import Again, GiveUp, Later
from limpet.worker.frames import Outcome


def policy_of(options: str, registered: Retry | None) -> Retry:
    """The retry policy that travels with a job, with what only code can say."""
    if options == "{}":
        return registered or Retry()
    record = msgspec.json.decode(options).get("retry")
    return Retry.from_record(record).with_code_of(registered) if record else registered or Retry()


def judged(
    claimed: ClaimedJob, error: BaseException, registered: Retry | None
) -> tuple[Outcome, str]:
    """What becomes of a job whose attempt raised, and what its log is to say about that."""
    policy = policy_of(claimed.options, registered)
    verdict = judge(error, policy, claimed.counters.failures, random.random())
    match verdict:
        case Again(delay=delay, cause=cause, note=note):
            return Outcome(claimed.lease, "retry", delay.total_seconds(), cause.record()), note
        case GiveUp(cause=cause):
            return Outcome(claimed.lease, "fail", cause=cause.record()), ""
        case Later(delay=delay):
            return Outcome(claimed.lease, "snooze", delay.total_seconds()), ""
        case _:
            assert_never(verdict)


def stopped(claimed: ClaimedJob, cause: Cause, registered: Retry | None) -> tuple[Outcome, str]:
    """The same of one that was asked to stop, and did or was ended."""
    match cause:
        case Requested():
            return Outcome(claimed.lease, "cancel"), ""
        case Drained():
            return Outcome(claimed.lease, "release", cause=cause.record()), ""
        case DeadlinePassed():
            return Outcome(claimed.lease, "fail", cause=cause.record()), ""
        case _:
            return judged(claimed, AttemptStopped(cause), registered)
