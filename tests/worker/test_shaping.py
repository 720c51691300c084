"""What a running task may ask for beside being tried again: held queues, another round, counts."""

import time
from typing import Any

import pytest
from worker.notes import notes
from worker.place import Handle, Place, until
from worker.tasks import shaping

from limpet import JobFailed, Result, State, Task
from limpet.domain.breaker import BreakerState
from limpet.domain.cause import Raised, TimedOut
from limpet.storage.contract.answers import Total


def test_a_task_that_is_rate_limited_holds_its_queue_for_all_and_spends_nothing(
    shared: Place,
) -> None:
    limited = shaping.is_limited.enqueue(shared.notes, 1.2)
    until(lambda: notes(shared.notes, "run"))
    until(lambda: _held(shared, "limited"))
    others = [shaping.is_not.enqueue(shared.notes) for _ in range(3)]
    assert limited.result(timeout=20) == 2
    shared.until_over(*others)
    first, second = notes(shared.notes, "run")
    assert second["at"] - first["at"] >= 1.15
    assert all(other["at"] - first["at"] >= 1.15 for other in notes(shared.notes, "other"))
    assert second["failures"] == 0
    assert shared.job(limited).counters == (0, 0, 0)
    assert all(shared.job(other).token == 1 for other in others)


def _held(place: Place, queue: str) -> bool:
    (view,) = [each for each in place.store.queues() if each.name == queue]
    return view.held_until is not None


def test_a_failed_job_gets_another_chance_by_itself(shared: Place) -> None:
    job = shaping.fails_until.enqueue(shared.notes, 3)
    until(lambda: shared.job(job).state is State.SUCCEEDED, said="the third round succeeds")
    assert job.result(timeout=5) == 3
    assert shared.job(job).round == 3
    assert [each["round"] for each in notes(shared.notes, "run")] == [1, 2, 3]
    assert shared.events(job).count("relaunched") == 2


def test_no_job_gets_more_chances_than_were_said(shared: Place) -> None:
    job = shaping.fails_until.enqueue(shared.notes, 99)
    until(lambda: len(notes(shared.notes, "run")) == 3)
    until(lambda: shared.job(job).state is State.FAILED)
    time.sleep(0.6)
    assert len(notes(shared.notes, "run")) == 3
    assert shared.job(job).relaunch_at is None


def test_a_job_that_failed_for_a_named_reason_gets_no_other_chance(shared: Place) -> None:
    job = shaping.fails_until.enqueue(shared.notes, 99, hopeless=True)
    with pytest.raises(JobFailed, match="never"):
        job.result(timeout=20)
    assert shared.job(job).relaunch_at is None
    time.sleep(0.6)
    assert len(notes(shared.notes, "run")) == 1


def test_a_person_who_retries_a_job_spends_none_of_its_chances(shared: Place) -> None:
    job = shaping.fails_until.enqueue(shared.notes, 4, hopeless=True)
    until(lambda: shared.job(job).state is State.FAILED)
    job.retry()
    until(lambda: shared.job(job).state is State.SUCCEEDED, said="the fourth round succeeds")
    assert shared.events(job).count("reopened") == 1
    assert shared.events(job).count("relaunched") == 2


def test_a_job_that_had_to_be_ended_by_force_gets_its_chance_too(shared: Place) -> None:
    job = shaping.swallows_its_timeout.enqueue(shared.notes)
    until(lambda: shared.job(job).state is State.SUCCEEDED, said="the second round succeeds")
    assert shared.job(job).round == 2
    assert isinstance(shared.cause(job, "failed").cause, TimedOut)


def test_a_breaker_opens_holds_work_back_probes_and_closes(shared: Place) -> None:
    shared.store.reset_breaker("api")
    first = [shaping.calls_an_api.enqueue(shared.notes, number) for number in range(4)]
    shared.until_over(*first)
    until(lambda: _breaker(shared) is BreakerState.OPEN, said="the breaker is open")
    opened = time.monotonic()
    rest = [shaping.calls_an_api.enqueue(shared.notes, number) for number in range(4, 10)]
    # A probe fails, and it is open again.
    until(lambda: len(notes(shared.notes, "run")) == 5, said="one is tried")
    assert time.monotonic() - opened >= 0.5
    time.sleep(0.3)
    assert len(notes(shared.notes, "run")) == 5
    shaping.comes_up(shared.notes)
    shared.until_over(*rest)
    assert _breaker(shared) is BreakerState.CLOSED
    assert [shared.job(each).state for each in rest].count(State.FAILED) == 1
    # After the one that failed, the next was tried alone, not before the others were let go.
    runs = [each["at"] for each in notes(shared.notes, "run")]
    assert runs[5] - runs[4] >= 0.6


def _breaker(place: Place) -> BreakerState:
    (found,) = [each for each in place.store.breakers() if each.rules.name == "api"]
    return found.state


@pytest.mark.parametrize(
    ("version", "args", "greeting"),
    [
        (1, '{"name": "Ada Lovelace"}', "ADA LOVELACE"),
        (2, '{"first": "Ada", "last": "Lovelace"}', "ADA LOVELACE"),
        (3, '{"first": "Ada", "last": "Lovelace", "loud": false}', "Ada Lovelace"),
    ],
)
def test_a_job_that_older_code_has_enqueued_is_brought_up_to_date(
    shared: Place, version: int, args: str, greeting: str
) -> None:
    job = shared.hand_in(shaping.greets, args, payload_version=version)
    assert job.result(timeout=20) == greeting


def test_a_new_job_carries_the_version_of_its_task(shared: Place) -> None:
    job = shaping.greets.enqueue("Ada", "Lovelace", loud=False)
    assert job.result(timeout=20) == "Ada Lovelace"
    assert shared.job(job).payload_version == 3


@pytest.mark.parametrize(
    ("task", "args", "said"),
    [
        ("greets", '{"name": "Ada"}', "the upgrade from version 1 failed: ValueError"),
        ("lacks_a_step", '{"name": "Ada"}', "no @lacks_a_step.upgrade(from_version=1)"),
    ],
)
def test_a_job_that_cannot_be_brought_up_to_date_is_put_aside(
    shared: Place, task: str, args: str, said: str
) -> None:
    job = shared.hand_in(task, args, payload_version=1)
    found = shared.until_state(job, State.QUARANTINED)
    assert isinstance(found.error, Raised)
    assert said in found.error.message
    assert ("shaping.py" in found.error.traceback) == (task == "greets")
    assert found.counters == (0, 0, 0)


def test_a_job_of_newer_code_is_left_for_a_newer_worker(shared: Place) -> None:
    job = shared.hand_in(shaping.greets, '{"title": "Countess"}', payload_version=4)
    found = shared.until_state(job, State.SCHEDULED)
    assert found.counters == (0, 0, 0)
    (line,) = until(lambda: shared.lines(job))
    assert "version 4 of greets, and this worker has version 3" in line
    job.cancel()


@pytest.mark.parametrize(
    ("task", "value"),
    [(shaping.counts, ["a@b.c"]), (shaping.counts_without_a_type, {"sent": True})],
    ids=["typed", "untyped"],
)
def test_counts_and_warnings_come_back_and_are_added_up(
    shared: Place, task: Task[Any, Any], value: object
) -> None:
    before = _counted(shared)
    jobs: list[Handle] = [task.enqueue(number) for number in (3, 4)]
    found = [job.result(timeout=20) for job in jobs]
    assert all(isinstance(each, Result) for each in found)
    assert [each.value for each in found] == [value, value]
    assert [each.counts for each in found] == [{"emails": 3}, {"emails": 4}]
    after = _counted(shared)
    assert after["count:emails"] - before.get("count:emails", 0) == 7
    warned = after.get("count:warnings", 0) - before.get("count:warnings", 0)
    assert warned == sum(len(each.warnings) for each in found)


def _counted(place: Place) -> dict[str, int]:
    totals: tuple[Total, ...] = place.store.totals()
    return {each.move: each.count for each in totals if each.queue == "counting"}
