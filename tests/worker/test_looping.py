"""What async tasks may do with their event loop, and what happens to what they leave on it."""

import time

import pytest
from worker.notes import notes
from worker.place import Place, until
from worker.tasks import leaving, looping, results

from limpet import JobFailed, State


def test_tasks_left_by_create_task_are_cancelled_at_the_end(shared: Place) -> None:
    before = looping.leaves_a_task.enqueue(shared.notes).result(timeout=10)
    assert len(notes(shared.notes, "tick over")) == 1
    assert leaving.pid_async.enqueue().result(timeout=10) == before, "nothing had to be replaced"


def test_a_task_that_will_not_be_cancelled_ends_with_the_executor(shared: Place) -> None:
    job = looping.leaves_a_stubborn_task.enqueue(shared.notes)
    before = job.result(timeout=10)
    ticks = len(notes(shared.notes, "tick"))
    time.sleep(0.1)
    assert len(notes(shared.notes, "tick")) == ticks
    assert leaving.pid_async.enqueue().result(timeout=10) != before


def test_task_groups_work(shared: Place) -> None:
    assert looping.groups.enqueue(shared.notes).result(timeout=10) == [0, 1, 2, 3, 4]


def test_a_group_that_fails_ends_all_of_its_tasks(shared: Place) -> None:
    job = looping.groups_and_fails.enqueue(shared.notes)
    with pytest.raises(JobFailed):
        job.result(timeout=10)
    assert len(notes(shared.notes, "tick over")) == 1
    assert "one of the group" in str(shared.job(job).error.record())  # type: ignore[union-attr]


def test_threads_timeouts_generators_and_shields_work(shared: Place) -> None:
    assert looping.threads.enqueue().result(timeout=10) == [n * n for n in range(20)]
    assert looping.times_out_inside.enqueue().result(timeout=10) == "its own timeout"
    assert looping.generates.enqueue().result(timeout=10) == [0, 1, 2]
    assert looping.shields.enqueue(shared.notes).result(timeout=10) == "left"
    assert len(notes(shared.notes, "tick over")) == 1


def test_programs_can_be_run_from_the_loop(shared: Place) -> None:
    job = looping.runs_programs.enqueue(5)
    assert job.result(timeout=20) == ["0", "1", "2", "3", "4"]


def test_a_sync_task_may_run_a_loop_of_its_own(shared: Place) -> None:
    for _ in range(3):
        assert looping.runs_a_loop_of_its_own.enqueue().result(timeout=10) == 42
    assert results.add_in_a_process.enqueue(1, 2).result(timeout=10) == 3


def test_an_error_in_a_callback_harms_nobody(shared: Place) -> None:
    assert looping.fails_in_a_callback.enqueue().result(timeout=10) == "went on"


def test_blocking_the_loop_is_reported_with_the_job_that_blocks(shared: Place) -> None:
    neighbour = looping.rests.enqueue(shared.notes, 2.5)
    until(lambda: notes(shared.notes))
    seen = len(shared.last.log("loop_blocked"))
    job = looping.blocks_the_loop.enqueue(3.5)
    until(lambda: len(shared.last.log("loop_blocked")) > seen, 5)
    said = shared.last.log("loop_blocked")[-1]
    assert said["job"] == job.id
    assert said["task"] == "blocks_the_loop"
    assert "looping.py" in said["message"]
    assert job.result(timeout=10) == "unblocked"
    assert neighbour.result(timeout=10) == "rested"
    assert shared.job(job).counters == shared.job(neighbour).counters == (0, 0, 0)


def test_a_job_that_cancels_every_task_does_not_make_others_fail(shared: Place) -> None:
    """Its neighbours may have to run again, but they must end well."""
    others = [looping.rests.enqueue(f"{shared.notes}-{n}", 1.0) for n in range(5)]
    until(lambda: all(notes(f"{shared.notes}-{n}") for n in range(5)))
    job = looping.cancels_everybody.enqueue(shared.notes)
    for other in others:
        found = shared.until_state(other, State.SUCCEEDED, State.FAILED)
        assert found.state is State.SUCCEEDED, found.error
        assert found.counters.strikes == 0
    shared.until_over(job)


def test_a_job_that_stops_its_loop_is_poison_and_its_neighbours_are_not(shared: Place) -> None:
    others = [looping.rests.enqueue(f"{shared.notes}-{n}", 1.0) for n in range(3)]
    until(lambda: all(notes(f"{shared.notes}-{n}") for n in range(3)))
    job = looping.stops_the_loop.enqueue(shared.notes)
    found = shared.until_state(job, State.FAILED, seconds=15)
    assert found.counters.strikes == 3
    for other in others:
        assert other.result(timeout=15) == "rested"
        assert shared.job(other).counters.strikes == 0
