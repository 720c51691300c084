"""A low limit of open files binds the user's code, and not the worker."""

import resource

import pytest
from worker.notes import notes
from worker.place import Handle, Place, Worker, until
from worker.tasks import cancelling, crowds, inside, queues

from limpet import State

# Each executor takes five files of the supervisor, so so many lanes need more than are allowed.
FILES, MANY, LANES, ASYNC_JOBS = 100, 4096, 24, 300


def limit(worker: Worker, files: int, most: int | None = None) -> tuple[int, int]:
    """Let a worker that has just been started open so many files, and raise that to `most`."""
    # It only loads Python by now; whatever it starts inherits this.
    before = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    given = (files, before[1] if most is None else most)
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, given)
    return given


def crowded(place: Place, most: int | None = None) -> tuple[Worker, tuple[int, int]]:
    """A worker for many jobs that may open few files, and its limits."""
    # So many executors begin at once that a process may get no turn of a core for a while; nothing
    # here waits for the lease.
    words = ("--lanes", str(LANES), "--async-jobs", str(ASYNC_JOBS), "--lease", "40s")
    worker = place.begin_worker(*words)
    given = limit(worker, FILES, most)
    return worker.until_ready(), given


def test_many_executors_and_async_jobs_run_under_a_low_limit_of_open_files(place: Place) -> None:
    worker, given = crowded(place)
    in_lanes: list[Handle] = [crowds.meets.enqueue(place.notes, LANES) for _ in range(LANES)]
    in_loop: list[Handle] = [crowds.meets_async.enqueue(ASYNC_JOBS) for _ in range(ASYNC_JOBS)]
    place.until_over(*in_lanes, *in_loop, seconds=40)
    assert {place.job(job).counters for job in [*in_lanes, *in_loop]} == {(0, 0, 0)}
    assert {job.result(timeout=1) for job in in_lanes} == {LANES}
    assert {job.result(timeout=1) for job in in_loop} == {ASYNC_JOBS}
    assert not worker.log("executor_failed")
    # Tasks and their programs have what the user gave them: some loop over all that is allowed.
    for task in (crowds.limits_of_files, crowds.limits_of_files_async):
        assert task.enqueue().result(timeout=10) == [list(given), list(given)]


def test_lanes_that_the_limit_of_open_files_forbids_cost_the_others_nothing(place: Place) -> None:
    """It cannot be raised here: as many lanes run as there is room for, and every job ends."""
    worker, _ = crowded(place, most=FILES)
    long_one: Handle = queues.in_a.enqueue(f"{place.notes}-long", 1.0)
    until(lambda: place.job(long_one).begun)
    jobs: list[Handle] = [queues.in_a.enqueue(place.notes, 0.2) for _ in range(2 * LANES)]
    place.until_over(long_one, *jobs, seconds=40)
    assert {place.job(job).counters for job in [long_one, *jobs]} == {(0, 0, 0)}
    assert len(notes(f"{place.notes}-long", "begin")) == 1
    assert len(notes(place.notes, "end")) == 2 * LANES
    assert f"instead of {LANES}" in worker.log("few_files")[0]["message"]
    assert not worker.log("session_over")


def test_a_lane_of_an_app_that_holds_thousands_of_files_can_be_stopped(place: Place) -> None:
    """Its own descriptors are then beyond what `select` can wait for."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < MANY:
        pytest.fail(f"nobody may open {MANY} files here; raise the hard limit of open files")
    target = place.module(
        "from worker.jobs import app\n"
        "held = [open('/dev/null') for _ in range(1_100)]\n"
    )  # fmt: skip
    worker = place.begin_worker("--lanes", "1", "--grace", "10s", target=target)
    limit(worker, MANY)
    job = cancelling.waits.enqueue(place.notes)
    until(lambda: notes(place.notes, "begin"))
    job.cancel()
    assert place.until_state(job, seconds=5).state is State.CANCELLED, place.job(job).error
    assert [each["cause"] for each in notes(place.notes, "stopped")] == ["Requested"]
    assert inside.enqueues.enqueue().result(timeout=10)
