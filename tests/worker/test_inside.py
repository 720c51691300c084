"""In a running task the app works as anywhere else, under the token of the attempt."""

from typing import Any

import pytest
from worker.place import Handle, Place, until
from worker.tasks import cancelling, inside, results

from limpet import State, Task


def handle(place: Place, id: str) -> Handle:
    return place.app.job(id)


@pytest.mark.parametrize(
    "task",
    [inside.enqueues, inside.enqueues_sync_in_async, inside.enqueues_async],
    ids=["enqueue in def", "enqueue in async def", "aenqueue in async def"],
)
def test_a_task_may_hand_in_jobs(shared: Place, task: Task[Any, Any]) -> None:
    first, second = task.enqueue().result(timeout=10)
    assert handle(shared, first).result(timeout=10) == 3
    assert handle(shared, second).result(timeout=10) == 7


def test_a_task_may_hand_in_many(shared: Place) -> None:
    ids = inside.enqueues_many.enqueue(2_500).result(timeout=30)
    assert len(set(ids)) == 2_500
    shared.until_over(*(handle(shared, each) for each in ids[::100]), seconds=30)
    assert handle(shared, ids[-1]).result(timeout=30) == 2_500


def test_an_async_task_may_hand_in_many_at_once(shared: Place) -> None:
    ids = inside.enqueues_at_once.enqueue(300).result(timeout=30)
    assert len(set(ids)) == 300
    assert handle(shared, ids[-1]).result(timeout=30) == 300


def test_a_task_may_wait_for_the_result_of_another(shared: Place) -> None:
    assert inside.waits_for_result.enqueue().result(timeout=10) == 23
    assert inside.awaits_result.enqueue().result(timeout=10) == 57


def test_a_job_that_waits_for_another_of_its_kind_does_not_hold_it_up(shared: Place) -> None:
    assert inside.waits_for_a_sync_one.enqueue().result(timeout=10) == 23


def test_a_task_may_look_at_and_cancel_other_jobs(shared: Place) -> None:
    other = cancelling.waits_async.enqueue(shared.notes)
    shared.until_state(other, State.RUNNING)
    assert inside.looks_up.enqueue(other.id).result(timeout=10) == "running"
    inside.cancels.enqueue(other.id).result(timeout=10)
    shared.until_state(other, State.CANCELLED, seconds=2)


def test_a_task_may_cancel_its_own_job(shared: Place) -> None:
    job = inside.cancels_itself.enqueue()
    assert shared.until_state(job, seconds=5).state is State.CANCELLED


def test_a_thread_of_a_task_hands_in_under_the_token_of_its_attempt(shared: Place) -> None:
    ids = inside.enqueues_from_a_thread.enqueue().result(timeout=10)
    assert handle(shared, ids[0]).result(timeout=10) == 11


def test_wrong_arguments_are_refused_inside_too(shared: Place) -> None:
    assert "add" in inside.enqueues_something_wrong.enqueue().result(timeout=10)


def test_a_late_holder_cannot_hand_in_jobs(shared: Place) -> None:
    before = sum(sum(queue.counts.values()) for queue in shared.store.queues())
    assert inside.enqueues_as_another.enqueue().result(timeout=10) == "LeaseLost"
    after = sum(sum(queue.counts.values()) for queue in shared.store.queues())
    assert after == before + 1


def test_a_task_cannot_use_what_only_the_supervisor_may(shared: Place) -> None:
    refused = inside.uses_what_only_the_worker_may.enqueue().result(timeout=10)
    assert refused == ["exchange", "settle", "release", "register", "recover", "prune"]


def test_enqueueing_inside_works_after_the_executor_was_replaced(shared: Place) -> None:
    from worker.tasks import orphans

    orphans.dies_once.enqueue(shared.notes).result(timeout=10)
    first, _ = inside.enqueues.enqueue().result(timeout=10)
    assert handle(shared, first).result(timeout=10) == 3
    until(lambda: results.add.enqueue(1, 1).result(timeout=10) == 2)
