"""Whoever cancels a job, from any process, ends it: softly first, and it is never retried."""

import contextlib
import subprocess
import sys
import time
from typing import Any

import pytest
from machine import crowded
from worker.notes import notes
from worker.place import Handle, Place, until
from worker.tasks import cancelling, results

from limpet import JobCancelled, MoveRefused, State, Task
from limpet.domain.job import Job

SOFT: list[Task[Any, Any]] = [
    cancelling.waits, cancelling.waits_async, cancelling.waits_in_a_process, cancelling.looks,
    cancelling.looks_in_a_thread, cancelling.checks,
]  # fmt: skip


def started(place: Place, task: Task[Any, Any]) -> Handle:
    job = task.enqueue(place.notes)
    until(lambda: notes(place.notes, "begin"))
    return job


def cancelled(place: Place, job: Handle, seconds: float) -> Job:
    """Cancel it and wait until that is confirmed; nothing may be charged."""
    before = time.monotonic()
    job.cancel("not needed")
    found = place.until_state(job)
    took = time.monotonic() - before
    assert found.state is State.CANCELLED
    assert found.counters == (0, 0, 0)
    assert took < seconds * crowded(), f"{took:.2f} s"
    with pytest.raises(JobCancelled, match="not needed"):
        job.result(timeout=1)
    return found


@pytest.mark.parametrize("task", SOFT, ids=lambda task: task.name)
def test_a_running_job_is_cancelled_within_a_second_and_cleans_up(
    shared: Place, task: Task[Any, Any]
) -> None:
    job = started(shared, task)
    cancelled(shared, job, 1.0)
    assert len(notes(shared.notes, "clean")) == 1
    time.sleep(0.1)
    assert len(notes(shared.notes, "begin")) == 1
    assert shared.events(job)[-2:] == ["cancel_requested", "cancelled"]


@pytest.mark.parametrize("how", ["lock", "queue", "program", "socket", "loop", "pool", "result"])
def test_a_sync_job_is_cancelled_wherever_it_waits(shared: Place, how: str) -> None:
    job = cancelling.is_blocked.enqueue(shared.notes, how)
    until(lambda: notes(shared.notes, "begin"))
    time.sleep(0.1)
    cancelled(shared, job, 2.0)
    assert len(notes(shared.notes, "clean")) == 1


def test_the_cleanup_of_an_async_task_may_await(shared: Place) -> None:
    cancelled(shared, started(shared, cancelling.waits_async), 1.0)
    assert len(notes(shared.notes, "awaited")) == 1


def test_a_sync_task_is_told_that_somebody_asked_for_it(shared: Place) -> None:
    cancelled(shared, started(shared, cancelling.waits), 1.0)
    assert [each["cause"] for each in notes(shared.notes, "stopped")] == ["Requested"]


def test_except_exception_does_not_swallow_the_stop(shared: Place) -> None:
    cancelled(shared, started(shared, cancelling.catches_exceptions), 1.0)
    assert notes(shared.notes, "swallowed") == []


@pytest.mark.parametrize(
    "task",
    [cancelling.fails_when_stopped, cancelling.fails_when_stopped_async],
    ids=["sync", "async"],
)
def test_a_cancelled_job_that_raises_is_not_retried(shared: Place, task: Task[Any, Any]) -> None:
    job = started(shared, task)
    cancelled(shared, job, 1.0)
    time.sleep(0.2)
    assert len(notes(shared.notes, "begin")) == 1


@pytest.mark.parametrize(
    "task", [cancelling.swallows, cancelling.swallows_async], ids=["sync", "async"]
)
def test_a_job_that_ignores_it_is_ended_after_the_grace(
    shared: Place, task: Task[Any, Any]
) -> None:
    job = started(shared, task)
    assert cancelled(shared, job, 1.0 + 1.5).state is State.CANCELLED
    last = notes(shared.notes, "alive")[-1]
    time.sleep(0.1)
    assert notes(shared.notes, "alive")[-1] == last
    assert results.add.enqueue(1, 1).result(timeout=10) == 2
    assert results.add_async.enqueue(1, 1).result(timeout=10) == 2


def test_a_scheduled_job_is_cancelled_at_once(shared: Place) -> None:
    job = cancelling.waits.using(delay=0.3).enqueue(shared.notes)
    assert job.cancel() is State.CANCELLED
    time.sleep(0.6)
    assert notes(shared.notes) == []
    assert shared.job(job).counters == (0, 0, 0)


def test_a_job_that_waits_for_its_next_attempt_is_cancelled(shared: Place) -> None:
    from worker.tasks import retries

    job = retries.fails_by_default.enqueue(shared.notes)
    shared.until_state(job, State.SCHEDULED)
    assert job.cancel() is State.CANCELLED
    assert shared.job(job).counters == (1, 0, 0)


def test_a_waiting_job_is_cancelled_at_once_and_never_runs(place: Place) -> None:
    waiting = results.fits.enqueue(1, place.notes)
    kept = results.fits.enqueue(2, f"{place.notes}-kept")
    assert waiting.cancel() is State.CANCELLED
    place.worker()
    assert kept.result(timeout=10) == 2
    assert notes(place.notes) == []


def test_a_job_that_waits_behind_another_in_its_lane_is_cancelled(narrow: Place) -> None:
    running = started(narrow, cancelling.waits)
    waiting = [results.fits.enqueue(n, f"{narrow.notes}-waiting") for n in range(5)]
    before = time.monotonic()
    for job in waiting:
        job.cancel()
    assert {each.state for each in narrow.until_over(*waiting)} == {State.CANCELLED}
    assert time.monotonic() - before < 2 * crowded()
    cancelled(narrow, running, 2.0)
    assert notes(f"{narrow.notes}-waiting") == []


def test_a_job_can_be_cancelled_from_another_process(shared: Place) -> None:
    job = started(shared, cancelling.waits_async)
    before = time.monotonic()
    subprocess.run([sys.executable, "-c", _CANCEL, shared.url, job.id], check=True, timeout=60)
    took = time.monotonic() - before
    shared.until_state(job, State.CANCELLED, seconds=1.0 * crowded())
    assert took < 5 * crowded()


_CANCEL = """
import sys
from limpet import App
App(sys.argv[1]).job(sys.argv[2]).cancel("from outside")
"""


def test_a_finished_job_is_not_touched_by_a_late_cancel(shared: Place) -> None:
    job = results.add.enqueue(1, 2)
    assert job.result(timeout=10) == 3
    with contextlib.suppress(MoveRefused):
        assert job.cancel() is State.SUCCEEDED
    assert shared.job(job).state is State.SUCCEEDED


def test_many_are_cancelled_together(shared: Place) -> None:
    jobs = [cancelling.waits_async.enqueue(f"{shared.notes}-{n}") for n in range(40)]
    until(lambda: all(notes(f"{shared.notes}-{n}") for n in range(40)))
    before = time.monotonic()
    for job in jobs:
        job.cancel()
    found = shared.until_over(*jobs)
    assert time.monotonic() - before < 4 * crowded()
    assert {each.state for each in found} == {State.CANCELLED}
    assert {each.counters for each in found} == {(0, 0, 0)}
