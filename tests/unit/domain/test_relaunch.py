"""When a failed job gets another chance by itself."""

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from limpet.app.options import JobOptions
from limpet.domain.cause import DeadlinePassed, Stalled, TimedOut
from limpet.domain.ending import Ending
from limpet.domain.errors import AttemptStopped, InvalidOption, Unrecoverable
from limpet.domain.job import ClaimedJob, Counters
from limpet.domain.lease import Lease
from limpet.domain.relaunch import Relaunch
from limpet.domain.retry import Retry
from limpet.domain.transition import Fail, RetryAt
from limpet.worker.supervisor.ledger import Hold
from limpet.worker.supervisor.settling import logged
from limpet.worker.wire.policy import judged, relaunch_of, stopped

ONCE = Retry(attempts=1)
POLICY = Relaunch(every="30m", at_most=2)


def claimed(round_: int = 1, options: str = "{}", deadline_at: int | None = None) -> ClaimedJob:
    lease, counters = Lease("job", "s", 1), Counters()
    return ClaimedJob(
        lease, "t", "q", 1, round_, counters, False, False, 1, "{}", options, (), deadline_at
    )


def again(error: BaseException, relaunch: Relaunch | None = POLICY, **more: Any) -> float | None:
    return relaunched(judged(claimed(**more), error, ONCE, relaunch))


def relaunched(ending: Ending) -> float | None:
    """The seconds until the relaunch of a job that has failed."""
    assert isinstance(ending.settlement, Fail)
    at = ending.settlement.relaunch_at
    if at is None:
        return None
    assert abs(at - time.time_ns() // 1000 - ending.delay // timedelta(microseconds=1)) < 60_000_000
    return ending.delay.total_seconds()


def test_a_job_out_of_attempts_is_relaunched_as_often_as_is_said() -> None:
    assert [again(ValueError(), round_=n) for n in (1, 2, 3)] == [1800.0, 1800.0, None]
    assert again(ValueError(), relaunch=None) is None


def test_rounds_that_a_person_opened_are_not_counted() -> None:
    def waits(round_: int, reopened: int) -> float | None:
        job = claimed(round_)._replace(reopened=reopened)
        return relaunched(judged(job, ValueError(), ONCE, POLICY))

    assert [waits(n, 1) for n in (2, 3, 4)] == [1800.0, 1800.0, None]
    assert [waits(n, n - 1) for n in (2, 9)] == [1800.0, 1800.0]


def test_a_job_that_is_tried_again_anyway_is_not_relaunched() -> None:
    ending = judged(claimed(), ValueError(), Retry(attempts=2), POLICY)
    assert isinstance(ending.settlement, RetryAt)


def test_the_log_of_a_worker_says_whether_a_failed_job_comes_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for round_ in (1, 3):
        job = claimed(round_)
        logged(Hold(job), judged(job, ValueError("no"), ONCE, POLICY))
    assert [each.getMessage() for each in caplog.records] == [
        "t failed, and is relaunched in 30m: ValueError: no",
        "t failed and will not be tried again: ValueError: no",
    ]


def test_unless_is_heard_also_through_a_group() -> None:
    policy = Relaunch("1m", unless=(PermissionError, KeyError))
    assert again(PermissionError(), policy) is None
    assert again(BaseExceptionGroup("two", [ValueError(), KeyError()]), policy) is None
    assert again(ValueError(), policy) == 60.0


def test_what_knows_that_it_is_of_no_use_is_not_relaunched() -> None:
    assert again(Unrecoverable("card refused")) is None
    assert relaunched(stopped(claimed(), DeadlinePassed(at=1), ONCE, POLICY)) is None


def test_a_chance_after_the_deadline_is_none() -> None:
    now = time.time_ns() // 1000
    assert again(ValueError(), deadline_at=now + 60_000_000) is None
    assert again(ValueError(), deadline_at=now + 7_200_000_000) == 1800.0


@pytest.mark.parametrize("cause", [TimedOut(1.0), Stalled(1.0)], ids=lambda each: each.kind)
def test_an_attempt_that_took_too_long_is_relaunched_like_one_that_raised(cause: Any) -> None:
    assert again(AttemptStopped(cause)) == 1800.0
    options = JobOptions(retry=ONCE, relaunch=POLICY).record()
    # As the supervisor does.
    assert relaunched(stopped(claimed(options=options), cause, None)) == 1800.0


def test_the_policy_travels_with_the_job_and_its_classes_stay_in_the_code() -> None:
    options = JobOptions(relaunch=replace(POLICY, every=timedelta(seconds=5))).record()
    registered = Relaunch("1h", unless=KeyError)
    found = relaunch_of(options, registered)
    assert found == Relaunch("5s", 2, unless=KeyError)
    assert relaunch_of("{}", registered) is registered


@pytest.mark.parametrize("record", ["null", "[]", '{"every": "soon"}', '{"every": 5}'])
def test_a_policy_that_this_version_cannot_read_is_that_of_the_code(record: str) -> None:
    assert relaunch_of(f'{{"relaunch": {record}}}', POLICY) is POLICY


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"every": "0s"}, "longer than 0"),
        ({"every": "soon"}, "Relaunch"),
        ({"every": 1, "at_most": 0}, "from 1 up"),
        ({"every": 1, "at_most": True}, "from 1 up"),
        ({"every": 1, "unless": "ValueError"}, "an exception class"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        Relaunch(**wrong)
