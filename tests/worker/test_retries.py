"""A failure is tried again as its policy says, is counted, and is on the timeline."""

from itertools import pairwise
from typing import Any

import pytest
from machine import crowded
from worker.notes import notes
from worker.place import Place, until
from worker.tasks import retries

from limpet import JobFailed, Retry, State, Task
from limpet.domain.cause import Raised

ODD = (
    "unprintable", "unpicklable", "exit", "exit with an object", "interrupt", "generator exit",
    "cancelled", "stop iteration", "surrogate", "long",
)  # fmt: skip


def pauses(place: Place) -> list[float]:
    """The seconds between one attempt and the next."""
    return [after["at"] - before["at"] for before, after in pairwise(notes(place.notes, "run"))]


def near(found: list[float], wanted: list[float]) -> bool:
    """Not sooner than asked for, and not much later on a busy machine."""
    late = 0.25 * crowded()
    return len(found) == len(wanted) and all(
        want - 0.005 <= each < want + late for each, want in zip(found, wanted, strict=True)
    )


@pytest.mark.parametrize(
    "task", [retries.fails_twice, retries.fails_twice_async], ids=["sync", "async"]
)
def test_a_failure_is_tried_again_counted_and_told(shared: Place, task: Task[Any, Any]) -> None:
    job = task.enqueue(shared.notes)
    assert job.result(timeout=10) == 3
    assert shared.job(job).counters == (2, 0, 0)
    assert shared.events(job) == [
        "enqueued", "claimed", "retried", "claimed", "retried", "claimed", "succeeded",
    ]  # fmt: skip
    runs = notes(shared.notes, "run")
    assert [run["attempt"] for run in runs] == [1, 2, 3]
    assert [run["failures"] for run in runs] == [0, 1, 2]
    assert [run["token"] for run in runs] == [1, 2, 3]
    cause = shared.cause(job, "retried").cause
    assert isinstance(cause, Raised)
    assert (cause.type, cause.message) == ("ValueError", "attempt 2")
    assert "raise ValueError" in cause.traceback
    assert "limpet/worker" not in cause.traceback


def test_a_job_out_of_attempts_fails_and_says_why(shared: Place) -> None:
    job = retries.always_fails.enqueue(shared.notes)
    with pytest.raises(JobFailed, match="ValueError: attempt 3"):
        job.result(timeout=10)
    assert shared.job(job).counters == (3, 0, 0)
    assert shared.events(job)[-2:] == ["claimed", "failed"]
    assert len(notes(shared.notes)) == 3


def test_a_failed_job_can_be_run_again_by_hand(shared: Place) -> None:
    job = retries.fails_twice.using(retry=Retry(attempts=1)).enqueue(shared.notes)
    with pytest.raises(JobFailed):
        job.result(timeout=10)
    job.retry()
    with pytest.raises(JobFailed):
        job.result(timeout=10)
    job.retry()
    assert job.result(timeout=10) == 3
    assert shared.job(job).round == 3
    assert shared.events(job).count("reopened") == 2


def test_the_default_is_five_attempts_from_one_second_doubling(shared: Place) -> None:
    """The waits are read from the store, so that the test need not wait for them."""
    job = retries.fails_by_default.enqueue(shared.notes)
    found = shared.until_state(job, State.SCHEDULED)
    assert found.counters.failures == 1
    retried = shared.cause(job, "retried")
    assert 0.85 < (found.ready_at - retried.at) / 1e6 < 1.15
    until(lambda: shared.job(job).counters.failures == 2, 5)
    second = shared.until_state(job, State.SCHEDULED)
    assert 1.75 < (second.ready_at - shared.cause(job, "retried").at) / 1e6 < 2.25
    job.cancel()
    five = retries.fails_by_default.using(retry=Retry(delay=0.01))
    job = five.enqueue(f"{shared.notes}-five")
    shared.until_state(job, State.FAILED)
    assert len(notes(f"{shared.notes}-five")) == 5


def test_exponential_waits_double(shared: Place) -> None:
    shared.until_over(retries.doubles.enqueue(shared.notes))
    assert near(pauses(shared), [0.1, 0.2, 0.4])


def test_no_wait_is_longer_than_the_cap(shared: Place) -> None:
    shared.until_over(retries.doubles_to_a_cap.enqueue(shared.notes))
    assert near(pauses(shared), [0.1, 0.15, 0.15])


def test_a_list_gives_the_waits_and_the_last_repeats(shared: Place) -> None:
    shared.until_over(retries.by_list.enqueue(shared.notes))
    assert near(pauses(shared), [0.05, 0.3, 0.3])


def test_a_function_gives_the_waits(shared: Place) -> None:
    shared.until_over(retries.by_function.enqueue(shared.notes))
    assert near(pauses(shared), [0.1, 0.2])


def test_a_function_that_fails_does_not_lose_the_job(shared: Place) -> None:
    job = retries.by_a_broken_function.enqueue(shared.notes)
    found = shared.until_over(job)[0]
    assert found.counters == (2, 0, 0)
    assert near(pauses(shared), [0.05])
    until(lambda: any("backoff function failed" in line for line in shared.lines(job)), 2)


@pytest.mark.parametrize(
    ("what", "attempts"), [("passing", 3), ("subclass", 3), ("lasting", 1), ("other", 1)]
)
def test_only_what_is_in_retry_on_and_not_in_give_up_on_is_tried_again(
    shared: Place, what: str, attempts: int
) -> None:
    job = retries.chooses.enqueue(shared.notes, what)
    assert shared.until_over(job)[0].counters == (attempts, 0, 0)
    assert len(notes(shared.notes)) == attempts


@pytest.mark.parametrize(
    "task", [retries.gives_up, retries.gives_up_in_a_group], ids=["plain", "in a group"]
)
def test_unrecoverable_fails_without_a_retry(shared: Place, task: Task[Any, Any]) -> None:
    job = task.enqueue(shared.notes)
    with pytest.raises(JobFailed):
        job.result(timeout=10)
    assert shared.job(job).counters == (1, 0, 0)
    assert len(notes(shared.notes)) == 1


def test_retry_after_says_when_and_spends_a_failure(shared: Place) -> None:
    job = retries.asks_for_a_time.enqueue(shared.notes, 0.15)
    assert job.result(timeout=10) == "later"
    assert near(pauses(shared), [0.15])
    assert shared.job(job).counters == (1, 0, 0)
    assert "rate limited" in str(shared.cause(job, "retried").cause)


def test_retry_after_is_bounded_by_the_attempts(shared: Place) -> None:
    job = retries.always_asks_for_a_time.enqueue(shared.notes)
    assert shared.until_over(job)[0].counters == (2, 0, 0)


@pytest.mark.parametrize("task", [retries.snoozes, retries.snoozes_async], ids=["sync", "async"])
def test_a_snooze_comes_back_and_spends_nothing(shared: Place, task: Task[Any, Any]) -> None:
    job = task.enqueue(shared.notes, times=4)
    assert job.result(timeout=10) == 5
    assert shared.job(job).counters == (0, 0, 0)
    assert shared.events(job).count("snoozed") == 4
    assert all(pause >= 0.045 for pause in pauses(shared))
    assert {run["attempt"] for run in notes(shared.notes)} == {1}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("task", [retries.raises, retries.raises_async], ids=["sync", "async"])
def test_whatever_a_task_raises_is_a_failure_like_another(
    shared: Place, task: Task[Any, Any], what: str
) -> None:
    """It is tried again, its text is kept in a sane size, and its executor is not lost."""
    job = task.enqueue(shared.notes, what)
    found = shared.until_state(job, State.SUCCEEDED, State.FAILED, seconds=6)
    cause = next(event.cause for event in shared.timeline(job) if event.cause is not None)
    assert found.state is State.SUCCEEDED, f"{shared.events(job)} {found.error}"
    assert found.counters == (1, 0, 0)
    assert len(str(cause)) < 10_000


def test_endless_recursion_is_a_failure_like_another(shared: Place) -> None:
    job = retries.recurses.enqueue(shared.notes)
    assert job.result(timeout=10) == "better"
    assert "RecursionError" in str(shared.cause(job, "retried").cause)
    assert shared.job(job).counters == (1, 0, 0)
