"""Nothing that an attempt started outlives it; its executor does not either, if need be."""

import time
from pathlib import Path
from typing import Any

import pytest
from worker.notes import notes
from worker.place import Place
from worker.tasks import leaving

from limpet import JobFailed, State, Task


@pytest.mark.parametrize(
    "task",
    [leaving.leaves_a_thread, leaving.leaves_a_thread_async, leaving.leaves_a_pool],
    ids=lambda task: task.name,
)
def test_a_thread_left_behind_ends_with_its_executor_before_the_outcome_is_settled(
    shared: Place, task: Task[Any, Any]
) -> None:
    job = task.enqueue(shared.notes)
    before = job.result(timeout=10)
    seen = len(notes(shared.notes, "alive"))
    time.sleep(0.15)
    assert len(notes(shared.notes, "alive")) == seen, "it wrote after its job was over"
    assert shared.job(job).counters == (0, 0, 0)
    after = leaving.pid_async if task is leaving.leaves_a_thread_async else leaving.pid
    pids = {after.enqueue().result(timeout=10) for _ in range(6)}
    assert before not in pids


def test_a_thread_left_behind_by_a_failure_ends_too(shared: Place) -> None:
    job = leaving.leaves_a_thread_and_fails.enqueue(shared.notes)
    with pytest.raises(JobFailed, match="a thread goes on"):
        job.result(timeout=10)
    seen = len(notes(shared.notes, "alive"))
    time.sleep(0.15)
    assert len(notes(shared.notes, "alive")) == seen
    assert shared.job(job).counters == (1, 0, 0)


def test_a_thread_that_ends_soon_is_waited_for(narrow: Place) -> None:
    before = leaving.leaves_a_brief_thread.enqueue(narrow.notes).result(timeout=10)
    assert len(notes(narrow.notes, "done")) == 1
    assert leaving.pid.enqueue().result(timeout=10) == before


@pytest.mark.parametrize(
    "task", [leaving.leaves_a_program, leaving.leaves_a_daemon], ids=lambda task: task.name
)
def test_programs_left_behind_are_gone_before_the_outcome_is_settled(
    shared: Place, task: Task[Any, Any]
) -> None:
    task.enqueue(shared.notes).result(timeout=10)
    size = Path(shared.notes).stat().st_size
    time.sleep(0.15)
    assert Path(shared.notes).stat().st_size == size


def test_a_program_left_by_an_async_job_is_gone_when_its_loop_is_idle(shared: Place) -> None:
    leaving.leaves_a_program_async.enqueue(shared.notes).result(timeout=10)
    size = Path(shared.notes).stat().st_size
    time.sleep(0.15)
    assert Path(shared.notes).stat().st_size == size


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_process_pools_can_be_used_one_job_after_another(narrow: Place, method: str) -> None:
    """What one job's pool leaves running is ended; the next job of that lane must get its own."""
    for _ in range(2):
        job = leaving.uses_a_process_pool.enqueue(method, [1, 2, 3])
        assert narrow.until_state(job, seconds=30).state is State.SUCCEEDED, narrow.job(job).error
        assert job.result(timeout=10) == [1, 4, 9]
