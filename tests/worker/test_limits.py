"""Timeout, stall and deadline: soft first, then the end; the cause is told, the policy decides."""

import time
from typing import Any

import pytest
from machine import crowded
from worker.notes import notes
from worker.place import Place, until
from worker.tasks import limits, results

from limpet import JobFailed, Retry, State, Task
from limpet.domain.cause import DeadlinePassed, Raised, Stalled, TimedOut

GRACE = 1.0  # of the shared worker


@pytest.mark.parametrize(
    "task", [limits.sleeps, limits.spins, limits.sleeps_async], ids=["sync", "busy", "async"]
)
def test_a_timeout_stops_the_task_softly(shared: Place, task: Task[Any, Any]) -> None:
    job = task.enqueue(shared.notes)
    with pytest.raises(JobFailed, match="longer than its timeout of 0.3"):
        job.result(timeout=10)
    begin, end = notes(shared.notes, "begin")[0], notes(shared.notes, "end")[0]
    assert 0.25 < end["at"] - begin["at"] < 0.3 + GRACE
    assert shared.job(job).error == TimedOut(seconds=0.3)
    assert shared.job(job).counters == (1, 0, 0)


def test_a_sync_task_is_told_why_it_must_stop(shared: Place) -> None:
    shared.until_over(limits.sleeps.enqueue(shared.notes))
    assert [each["cause"] for each in notes(shared.notes, "stopped")] == ["TimedOut"]


def test_cleanup_within_the_grace_is_let_finish(shared: Place) -> None:
    job = limits.cleans_up_slowly.enqueue(shared.notes)
    assert shared.until_over(job)[0].error == TimedOut(seconds=0.3)
    assert len(notes(shared.notes, "clean")) == 1


def test_a_sync_task_that_ignores_the_timeout_is_killed_after_the_grace(shared: Place) -> None:
    job = limits.ignores.enqueue(shared.notes)
    found = shared.until_over(job)[0]
    told = time.monotonic()
    assert found.error == TimedOut(seconds=0.3)
    assert found.counters == (1, 0, 0)
    begin, last = notes(shared.notes, "begin")[0], notes(shared.notes, "alive")[-1]
    assert 0.3 + GRACE - 0.1 < last["at"] - begin["at"] < 0.3 + GRACE + 0.7 * crowded()
    assert last["at"] < told
    time.sleep(0.1)
    assert notes(shared.notes, "alive")[-1] == last


def test_an_async_task_that_ignores_it_is_killed_and_its_neighbours_finish_uncharged(
    shared: Place,
) -> None:
    """The neighbours get the grace too; one that needs longer is handed back and runs again."""
    quick = limits.neighbour.enqueue(f"{shared.notes}-quick", 1.0)
    slow = [limits.neighbour.enqueue(f"{shared.notes}-{n}", 4.0) for n in range(3)]
    until(lambda: all(notes(f"{shared.notes}-{n}") for n in range(3)))
    job = limits.ignores_async.enqueue(shared.notes)
    found = shared.until_over(job)[0]
    assert found.error == TimedOut(seconds=0.3)
    assert found.counters == (1, 0, 0)
    last = notes(shared.notes, "alive")[-1]
    assert quick.result(timeout=10) == 1
    for each in slow:
        assert each.result(timeout=10) == 2
        assert shared.job(each).counters == (0, 0, 0)
        assert shared.events(each).count("released") == 1
        assert "because of another job" in str(shared.cause(each, "released").cause)
    assert notes(shared.notes, "alive")[-1] == last


@pytest.mark.parametrize(
    "task", [limits.slow_at_first, limits.slow_at_first_async], ids=["sync", "async"]
)
def test_a_timeout_is_retried_by_the_policy(shared: Place, task: Task[Any, Any]) -> None:
    job = task.enqueue(shared.notes)
    assert job.result(timeout=10) == 2
    assert shared.cause(job, "retried").cause == TimedOut(seconds=0.3)
    assert shared.job(job).counters == (1, 0, 0)


def test_an_ignored_timeout_is_retried_by_the_policy_too(shared: Place) -> None:
    job = limits.ignores.using(retry=Retry(attempts=2, delay=0.01)).enqueue(shared.notes)
    found = shared.until_over(job)[0]
    assert found.counters == (2, 0, 0)
    assert len(notes(shared.notes, "begin")) == 2


@pytest.mark.parametrize("task", [limits.stalls, limits.stalls_async], ids=["sync", "async"])
def test_a_task_without_progress_is_stopped_and_one_with_progress_is_not(
    shared: Place, task: Task[Any, Any]
) -> None:
    going = task.enqueue(f"{shared.notes}-going", progress=True)
    stuck = task.enqueue(shared.notes, progress=False)
    assert shared.until_over(stuck)[0].error == Stalled(seconds=0.4)
    assert going.result(timeout=10) == "done"


def test_a_deadline_bounds_all_attempts_together(shared: Place) -> None:
    job = limits.fails_until_its_deadline.using(deadline=0.6).enqueue(shared.notes)
    before = time.monotonic()
    found = shared.until_state(job, seconds=5)
    assert time.monotonic() - before < 2.5 * crowded()
    # An attempt that could only come after the deadline is not waited for: its error counts.
    assert isinstance(found.error, DeadlinePassed | Raised)
    assert found.state is State.FAILED
    assert 2 < len(notes(shared.notes)) < 100


def test_a_running_attempt_is_stopped_at_its_deadline(shared: Place) -> None:
    job = limits.runs_past_its_deadline.using(deadline=0.5).enqueue(shared.notes)
    found = shared.until_state(job, seconds=5)
    assert isinstance(found.error, DeadlinePassed)
    assert found.state is State.FAILED
    assert len(notes(shared.notes)) == 1


def test_the_worker_is_well_after_all_that(shared: Place) -> None:
    assert results.add.enqueue(1, 1).result(timeout=10) == 2
    assert results.add_async.enqueue(1, 1).result(timeout=10) == 2
