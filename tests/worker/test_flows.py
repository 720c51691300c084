"""A task that fans out runs again when its children are finished, and finds their results."""

from typing import Any

import pytest
from worker.notes import notes
from worker.place import Place, until
from worker.tasks import flows, results

from limpet import JobFailed, State, Task
from limpet.domain.cause import ChildFailed, ParentGone


@pytest.mark.parametrize("task", [flows.gathers, flows.gathers_async], ids=["sync", "async"])
def test_a_task_that_fans_out_runs_again_with_the_results_of_its_children(
    shared: Place, task: Task[Any, Any]
) -> None:
    job = task.enqueue(shared.notes, 5)
    assert job.result(timeout=20) == 2 * sum(range(5))
    assert [(each["token"], each["children"]) for each in notes(shared.notes, "run")] == [
        (1, 0),
        (2, 5),
    ]
    assert shared.job(job).counters == (0, 0, 0)
    children = shared.store.children(job.id).jobs
    assert {child.state for child in children} == {State.SUCCEEDED}
    assert {(child.parent, child.root) for child in children} == {(job.id, job.id)}


def test_a_fan_out_of_several_parts_is_whole(shared: Place) -> None:
    job = flows.gathers_async.enqueue(shared.notes, 2_500)
    assert job.result(timeout=120) == 2 * sum(range(2_500))


def test_a_child_that_fails_is_left_out_or_kept_with_its_error_as_was_asked(shared: Place) -> None:
    skips = flows.gathers.enqueue(f"{shared.notes}-skip", 3, "skip")
    keeps = flows.gathers.enqueue(f"{shared.notes}-keep", 3, "keep")
    assert skips.result(timeout=20) == keeps.result(timeout=20) == 6
    assert [each["children"] for each in notes(f"{shared.notes}-skip", "run")] == [0, 3]
    assert [each["children"] for each in notes(f"{shared.notes}-keep", "run")] == [0, 4]
    (error,) = notes(f"{shared.notes}-keep", "error")
    assert (error["task"], error["state"]) == ("broken_leaf", "failed")
    assert error["error"] == "ValueError: a child of sorrow"


def test_a_child_that_fails_fails_the_job_that_cannot_do_without_it(shared: Place) -> None:
    job = flows.fans_out_into_a_broken_one.enqueue(shared.notes)
    with pytest.raises(JobFailed, match="its child .* is failed"):
        job.result(timeout=20)
    assert isinstance(shared.job(job).error, ChildFailed)
    assert len(notes(shared.notes, "run")) == 1


def test_a_wish_to_fan_out_is_heard_through_a_task_group(shared: Place) -> None:
    assert flows.fans_out_in_a_group.enqueue().result(timeout=20) == 1


def test_a_task_may_fan_out_again(shared: Place) -> None:
    assert flows.fans_out_twice.enqueue().result(timeout=20) == [2, 4, 4]


def test_a_fan_out_may_have_flows_below_it(shared: Place) -> None:
    job = flows.fans_out_into_a_flow.enqueue(shared.notes)
    assert job.result(timeout=20) == 2
    (seen,) = notes(shared.notes, "tasks")
    assert sorted(seen["tasks"]) == ["leaf", "sums_up"]
    (sums_up,) = [each for each in shared.store.children(job.id).jobs if each.task == "sums_up"]
    assert sums_up.root == job.id
    assert {each.root for each in shared.store.children(sums_up.id).jobs} == {job.id}


def test_a_job_can_hand_in_a_flow_of_its_own(shared: Place) -> None:
    flow = flows.hands_in_a_flow.enqueue().result(timeout=20)
    assert shared.app.job(flow).result(timeout=20) == flows.Double(3, 6)


def test_a_job_can_hand_in_a_flow_of_more_jobs_than_one_write_takes(shared: Place) -> None:
    flow = flows.hands_in_a_flow.enqueue(1_500).result(timeout=60)
    assert shared.app.job(flow).result(timeout=120) == flows.Double(4_500, 9_000)
    assert len(list(shared.app.client.children_of(flow))) == 1_500


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("nothing", "nothing to wait for"),
        ("no calls", "a child is a call or a Flow"),
        ("another app", "belongs to another app"),
    ],
)
def test_a_fan_out_that_cannot_be_is_told(shared: Place, how: str, said: str) -> None:
    """At once: it would be the same the next time."""
    job = flows.fans_out_wrongly.enqueue(how)
    with pytest.raises(JobFailed, match=said):
        job.result(timeout=20)
    assert shared.job(job).token == 1


def test_cancelling_a_job_that_waits_for_its_children_ends_those_that_run(shared: Place) -> None:
    job = flows.fans_out_and_waits.enqueue(shared.notes)
    until(lambda: notes(shared.notes, "begin"))
    assert job.cancel("not needed") is State.CANCELLED
    until(
        lambda: {each.state for each in shared.store.children(job.id).jobs} == {State.CANCELLED},
        said="all children are cancelled",
    )
    assert len(notes(shared.notes, "clean")) == 1
    assert {type(each.error) for each in shared.store.children(job.id).jobs} == {ParentGone}
    assert len(notes(shared.notes, "run")) == 1


def test_a_fan_out_cancelled_while_it_is_staged_leaves_no_children(shared: Place) -> None:
    job = flows.gathers_async.enqueue(shared.notes, 3_000)
    until(lambda: notes(shared.notes, "run"))
    job.cancel()
    assert shared.until_state(job).state is State.CANCELLED
    until(
        lambda: all(
            each.state is State.CANCELLED for each in shared.store.children(job.id, limit=1000).jobs
        )
    )
    assert results.add.enqueue(1, 1).result(timeout=20) == 2


def test_a_worker_that_leaves_when_idle_waits_for_the_children(place: Place) -> None:
    job = flows.gathers_async.enqueue(place.notes, 50)
    place.worker("--burst")
    assert place.last.wait(30) == 0
    assert place.job(job).state is State.SUCCEEDED
