"""`@task.on_orphaned` runs once per orphaning, before the body, with the cause."""

from typing import Any

import pytest
from worker.notes import notes
from worker.place import Place, until
from worker.tasks import orphans, results

from limpet import State, Task
from limpet.domain.cause import TooManyStrikes, WorkerKilled


def kinds(place: Place) -> list[str]:
    return [each["what"] for each in notes(place.notes)]


@pytest.mark.parametrize(
    "task", [orphans.dies_once, orphans.dies_once_async], ids=["sync", "async"]
)
def test_the_hook_runs_before_the_body_with_the_cause_under_the_new_token(
    shared: Place, task: Task[Any, Any]
) -> None:
    job = task.enqueue(shared.notes)
    assert job.result(timeout=10) == "second"
    assert kinds(shared) == ["run", "hook", "run"]
    first, hook, second = notes(shared.notes)
    assert hook["cause"] == "WorkerKilled"
    assert "signal 9" in hook["text"]
    assert hook["token"] == second["token"] > first["token"]
    assert shared.job(job).counters == (0, 1, 1)
    assert shared.cause(job, "orphaned").cause == WorkerKilled(signal=9, process="executor")


def test_the_hook_runs_once_though_the_next_attempt_fails_and_is_retried(shared: Place) -> None:
    job = orphans.dies_then_fails.enqueue(shared.notes)
    assert job.result(timeout=10) == "third"
    assert kinds(shared) == ["run", "hook", "run", "run"]
    assert shared.job(job).counters == (1, 1, 1)


def test_the_hook_runs_once_for_each_orphaning(shared: Place) -> None:
    job = orphans.dies_twice.enqueue(shared.notes)
    assert job.result(timeout=10) == "third"
    assert kinds(shared) == ["run", "hook", "run", "hook", "run"]
    assert shared.job(job).counters == (0, 2, 2)


def test_the_hook_runs_once_though_the_next_attempt_is_handed_back(place: Place) -> None:
    """The drain hands back an attempt whose hook has run already."""
    first = place.worker("--drain", "0.2s")
    job = orphans.dies_then_waits.enqueue(place.notes)
    until(lambda: kinds(place) == ["run", "hook", "run"])
    assert first.stop() == 0
    place.worker()
    assert job.result(timeout=10) == "third"
    assert kinds(place) == ["run", "hook", "run", "run"]
    assert place.job(job).counters == (0, 1, 1)


def test_the_last_run_after_three_strikes_is_the_hooks_only_and_then_it_fails(
    shared: Place,
) -> None:
    job = orphans.is_poison.enqueue(shared.notes)
    found = shared.until_state(job, State.FAILED)
    assert found.error == TooManyStrikes(count=3)
    assert found.counters.orphans == found.counters.strikes == 3
    assert kinds(shared) == ["run", "hook", "run", "hook", "run", "hook"]


def test_a_poison_job_without_a_hook_fails_after_three_strikes(shared: Place) -> None:
    job = orphans.is_bare_poison.enqueue(shared.notes)
    found = shared.until_state(job, State.FAILED)
    assert found.error == TooManyStrikes(count=3)
    assert kinds(shared) == ["run"] * 3


def test_a_hook_that_kills_its_executor_is_bounded(shared: Place) -> None:
    """Each death in the hook is a loss of its own; one in the last run is the end."""
    job = orphans.has_a_deadly_hook.enqueue(shared.notes)
    found = shared.until_state(job, State.FAILED)
    assert kinds(shared) == ["run", "hook", "hook", "hook"]
    assert isinstance(found.error, TooManyStrikes)
    assert results.add.enqueue(1, 1).result(timeout=10) == 2


def test_a_hook_that_raises_is_a_failed_attempt_and_is_not_repeated(shared: Place) -> None:
    job = orphans.has_a_failing_hook.enqueue(shared.notes)
    assert job.result(timeout=10) == "done"
    assert kinds(shared) == ["run", "hook", "run"]
    assert shared.job(job).counters == (1, 1, 1)
