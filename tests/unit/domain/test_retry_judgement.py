"""What becomes of a job whose attempt raised: decided by what was raised and by its policy."""

import pickle
import sys
from datetime import timedelta
from typing import Any

import pytest

from limpet.domain import transition
from limpet.domain.cause import Cause, DeadlinePassed, Drained, Raised, Stalled, TimedOut
from limpet.domain.ending import Ending
from limpet.domain.errors import (
    AttemptStopped,
    InvalidOption,
    RateLimited,
    RetryAfter,
    Snooze,
    Unrecoverable,
)
from limpet.domain.lease import Lease
from limpet.domain.raised import raised
from limpet.domain.retry import Retry, judge
from limpet.domain.transition import Fail, RetryAt

STEADY = Retry(attempts=3, backoff="fixed", delay="10s", jitter=0)
LEASE, NOW = Lease("job", "session", 1), 1_000_000


def judged(error: BaseException, policy: Retry, failures: int, chance: float) -> Ending:
    found = judge(LEASE, error, policy, failures, chance=chance, now=NOW)
    if isinstance(found.settlement, RetryAt | transition.SnoozeUntil):
        assert timedelta(microseconds=found.settlement.at - NOW) == found.delay
    return found


def fails(ending: Ending) -> bool:
    return isinstance(ending.settlement, Fail)


def is_tried_again(ending: Ending) -> bool:
    return isinstance(ending.settlement, RetryAt)


def snoozed(delay: timedelta, *, holds: bool = False) -> Ending:
    at = NOW + delay // timedelta(microseconds=1)
    return Ending(transition.SnoozeUntil(LEASE, at, holds), delay)


def cause_of_ending(ending: Ending) -> Cause:
    assert isinstance(ending.settlement, RetryAt | Fail)
    return ending.settlement.error


def test_an_ordinary_error_is_tried_again_until_the_attempts_are_used_up() -> None:
    for before in (0, 1):
        ending = judged(ValueError("x"), STEADY, before, 0.5)
        assert is_tried_again(ending)
        assert ending.delay == timedelta(seconds=10)
        assert isinstance(cause_of_ending(ending), Raised)
    assert fails(judged(ValueError("x"), STEADY, 2, 0.5))


def test_unrecoverable_is_never_tried_again() -> None:
    ending = judged(Unrecoverable("card refused"), STEADY, 0, 0.5)
    assert fails(ending)
    assert cause_of_ending(ending).sentence() == "Unrecoverable: card refused"


def test_retry_after_waits_as_told_and_spends_a_failure() -> None:
    told = RetryAfter("2h", "rate limit")
    again = judged(told, Retry(attempts=2, cap="1m"), 0, 0.0)
    assert (is_tried_again(again), again.delay) == (True, timedelta(hours=2))
    assert cause_of_ending(again) == raised(told)
    assert fails(judged(told, Retry(attempts=2), 1, 0.0))


def test_snooze_spends_nothing_however_often() -> None:
    assert judged(Snooze("5m"), STEADY, 99, 0.5) == snoozed(timedelta(minutes=5))


def test_a_rate_limit_spends_nothing_and_holds_the_queue() -> None:
    limited = snoozed(timedelta(seconds=3), holds=True)
    assert judged(RateLimited(3), STEADY, 99, 0.5) == limited
    both = BaseExceptionGroup("two", [Snooze(1), RateLimited(3)])
    assert judged(both, STEADY, 0, 0.5) == limited


@pytest.mark.parametrize("kind", [RetryAfter, Snooze, RateLimited])
def test_a_delay_that_cannot_be_read_is_refused_where_it_is_raised(kind: Any) -> None:
    with pytest.raises(InvalidOption, match=f"the delay of {kind.__name__} is 'soon'"):
        kind("soon")


def test_only_what_is_worth_it_is_tried_again() -> None:
    policy = Retry(retry_on=(OSError, KeyError), give_up_on=FileNotFoundError)
    assert is_tried_again(judged(ConnectionResetError(), policy, 0, 0.5))
    assert fails(judged(FileNotFoundError(), policy, 0, 0.5))
    assert fails(judged(ValueError(), policy, 0, 0.5))
    assert fails(judged(SystemExit(1), Retry(), 0, 0.5))
    assert is_tried_again(judged(SystemExit(1), Retry(retry_on=BaseException), 0, 0.5))


@pytest.mark.parametrize("cause", [TimedOut(60), Stalled(30)])
def test_a_timeout_or_a_stall_is_a_failure_with_that_cause(cause: Cause) -> None:
    stopped = AttemptStopped(cause)
    policy = Retry(attempts=2, retry_on=OSError)
    assert cause_of_ending(judged(stopped, policy, 0, 0.5)) is cause
    assert is_tried_again(judged(stopped, policy, 0, 0.5))
    assert judged(stopped, policy, 1, 0.5) == Ending(Fail(LEASE, cause))
    assert judged(stopped, Retry(give_up_on=AttemptStopped), 0, 0.5) == Ending(Fail(LEASE, cause))


def test_a_stop_that_is_nobodys_fault_spends_nothing_and_a_deadline_ends_it() -> None:
    assert judged(AttemptStopped(Drained()), STEADY, 0, 0.5) == snoozed(timedelta())
    late = DeadlinePassed(at=1)
    assert judged(AttemptStopped(late), STEADY, 0, 0.5) == Ending(Fail(LEASE, late), final=True)


def test_what_a_task_says_is_heard_through_an_exception_group() -> None:
    def group(*errors: BaseException) -> BaseException:
        return BaseExceptionGroup("several", [BaseExceptionGroup("deep", [errors[0]]), *errors[1:]])

    assert fails(judged(group(Unrecoverable("x"), OSError()), STEADY, 0, 0.5))
    assert judged(group(AttemptStopped(Drained()), OSError()), STEADY, 0, 0.5) == snoozed(
        timedelta()
    )
    assert is_tried_again(judged(group(OSError(), ValueError()), STEADY, 0, 0.5))
    assert judged(group(Snooze(1), Snooze(1)), STEADY, 0, 0.5) == snoozed(timedelta(seconds=1))
    failed = judged(group(Snooze(1), OSError("x")), STEADY, 0, 0.5)
    assert is_tried_again(failed), "a failure must not hide behind a snooze"
    only = Retry(retry_on=OSError)
    assert is_tried_again(judged(group(OSError(), OSError()), only, 0, 0.5))
    assert fails(judged(group(OSError(), ValueError()), only, 0, 0.5))


def test_a_function_decides_the_delay_by_failures_and_error() -> None:
    seen: list[tuple[int, BaseException]] = []

    def custom(failures: int, error: BaseException) -> str:
        seen.append((failures, error))
        return "7h"

    error = ValueError("x")
    ending = judged(error, Retry(backoff=custom, jitter=1), 0, 0.0)
    assert is_tried_again(ending)
    assert (ending.delay, ending.note) == (timedelta(hours=7), "")
    assert seen == [(1, error)]


@pytest.mark.parametrize(
    ("custom", "words"),
    [
        (lambda failures, error: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda failures, error: "soon", "'soon'"),
        (lambda failures, error: None, "None"),
        (lambda failures: 1, "TypeError"),
        (lambda failures, error: sys.exit(3), "SystemExit: 3"),
    ],
)
def test_a_function_that_fails_loses_nothing_and_the_wait_is_exponential(
    custom: Any, words: str
) -> None:
    ending = judged(ValueError("x"), Retry(backoff=custom, delay="2s", jitter=0), 1, 0.5)
    assert is_tried_again(ending)
    assert ending.delay == timedelta(seconds=4)
    assert words in ending.note


@pytest.mark.parametrize(
    "wrong",
    [
        {"backoff": "custom"},
        {"backoff": {"a": 1}},
        {"backoff": ValueError},
        {"retry_on": "OSError"},
        {"retry_on": int},
        {"give_up_on": (OSError, 3)},
    ],
    ids=str,
)
def test_a_policy_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="Retry"):
        Retry(**wrong)


def test_a_coroutine_function_cannot_decide_the_delay() -> None:
    async def custom(failures: int, error: BaseException) -> float:
        return 1.0

    with pytest.raises(InvalidOption, match="plain function"):
        Retry(backoff=custom)  # type: ignore[arg-type]


def custom_backoff(failures: int, error: BaseException) -> float:
    return 1.0


def test_only_plain_data_travels() -> None:
    assert Retry(backoff=["1s"]).travels
    assert not Retry(backoff=custom_backoff).travels
    assert not Retry(retry_on=OSError).travels
    assert not Retry(give_up_on=OSError).travels
    record = Retry(backoff=custom_backoff, retry_on=OSError).record()
    assert record["backoff"] == "custom"
    assert set(record) == {"attempts", "backoff", "delay", "cap", "jitter"}


def test_a_policy_comes_back_from_its_record() -> None:
    for policy in (Retry(), Retry(3, "fixed", "5s", "1m", 0), Retry(backoff=["1s", "2m"])):
        assert Retry.from_record(policy.record()) == policy


@pytest.mark.parametrize(
    "record",
    [
        {},
        None,
        [],
        {"attempts": None, "colour": "blue"},
        {"attempts": "many", "backoff": {"kind": "fibonacci"}, "delay": -1, "jitter": "wild"},
        {"backoff": "fibonacci", "cap": 1e300, "delay": float("nan")},
        {"backoff": []},
    ],
    ids=str,
)
def test_a_record_of_a_newer_version_never_raises(record: Any) -> None:
    assert Retry.from_record(record) == Retry()


def test_what_can_be_used_of_a_newer_record_is_used() -> None:
    policy = Retry.from_record({"attempts": 9, "backoff": "fibonacci", "delay": 3, "more": 1})
    assert policy == Retry(attempts=9, delay="3s")


def test_a_job_keeps_its_numbers_and_takes_its_tasks_code() -> None:
    registered = Retry(2, custom_backoff, retry_on=OSError, give_up_on=FileNotFoundError)
    policy = Retry.from_record(Retry(7, custom_backoff).record()).with_code_of(registered)
    assert policy == Retry(7, custom_backoff, retry_on=OSError, give_up_on=FileNotFoundError)
    fixed = Retry.from_record(Retry(7, "fixed").record()).with_code_of(registered)
    assert fixed.backoff == "fixed"


@pytest.mark.parametrize("registered", [None, Retry(backoff="fixed")])
def test_a_function_that_is_registered_no_more_leaves_exponential(registered: Retry | None) -> None:
    recorded = Retry.from_record(Retry(7, custom_backoff, "2s", jitter=0).record())
    policy = recorded.with_code_of(registered)
    assert policy == Retry(7, "exponential", "2s", jitter=0)
    for each in (policy, recorded):
        ending = judged(ValueError(), each, 1, 0.5)
        assert is_tried_again(ending)
        assert ending.delay == timedelta(seconds=4)


@pytest.mark.parametrize(
    "error",
    [
        Unrecoverable("why"),
        RetryAfter("60s", "rate limit"),
        Snooze("5m"),
        AttemptStopped(TimedOut(seconds=3)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_task_raises_survives_a_pickle(error: BaseException) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.__dict__) == (str(error), error.__dict__)


def test_except_exception_does_not_swallow_a_stop() -> None:
    def task() -> None:
        try:
            raise AttemptStopped(TimedOut(3))
        except Exception:
            pytest.fail("swallowed")

    with pytest.raises(AttemptStopped, match="timeout of 3s"):
        task()
