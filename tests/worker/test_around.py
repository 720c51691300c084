"""Hooks run once in each executor, middleware wraps attempts, context variables reach tasks."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import crowded
from worker import around
from worker.notes import notes
from worker.place import Place, Worker, until

from limpet import JobFailed, State


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, around.app)
    yield place
    for worker in place.workers:
        print(worker.text[-10_000:])
    place.close()


def start(place: Place, *words: str) -> Worker:
    hooks = {"LIMPET_TEST_HOOKS": hooks_of(place)}
    return place.worker(*words, target="worker.around:app", env=hooks)


def hooks_of(place: Place) -> str:
    return str(place.folder / "hooks")


@pytest.fixture(scope="module")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("around"), around.app)
    start(place)
    yield place
    around.app.move_to(place.url)
    place.close()


@pytest.fixture
def wrapped(_kept: Place) -> Place:
    """A worker for the tests of middleware, which tell their jobs apart by their ids."""
    around.app.move_to(_kept.url)
    return _kept


def of_job(place: Place, job: str) -> list[str]:
    return [each["what"] for each in notes(hooks_of(place)) if each.get("job") == job]


def test_hooks_run_once_in_each_executor_and_what_they_set_reaches_the_tasks(
    place: Place,
) -> None:
    worker = start(place, "--lanes", "2")
    hooks = hooks_of(place)
    slow = [around.is_slow.enqueue(f"{place.notes}-{n}", 0.5) for n in range(2)]
    place.until_over(*slow)
    sync = [around.sees.enqueue() for _ in range(10)]
    other = [around.sees_async.enqueue() for _ in range(10)]
    pids = set()
    for job in sync + other:
        connection, pool, request, pid = job.result(timeout=10)
        assert connection == f"connection of {pid}"
        assert pool == f"pool of {pid}"
        assert request == f"request of {job.id}"
        pids.add(int(pid))
    assert worker.stop() == 0
    for what in ("start", "start async", "stop", "stop async"):
        found = [each["pid"] for each in notes(hooks, what)]
        assert sorted(found) == sorted(set(found)), what
        assert set(found) >= pids, what
        assert len(found) == 3, "two lanes and a loop"
    assert all(
        each["sees"] == f"connection of {each['pid']}"
        for each in notes(hooks) if each["what"] in ("stop", "start async")
    )  # fmt: skip
    assert all(each["sees"] == f"pool of {each['pid']}" for each in notes(hooks, "stop async"))


def test_middleware_wraps_attempts_the_first_is_outermost(wrapped: Place) -> None:
    sync, other = around.sees.enqueue(), around.sees_async.enqueue()
    wrapped.until_over(sync, other)
    assert of_job(wrapped, sync.id) == ["outer in", "inner in", "inner out", "outer out"]
    assert of_job(wrapped, other.id) == [
        "outer in", "middle in", "inner in", "inner out", "middle out", "outer out",
    ]  # fmt: skip


def test_middleware_sees_what_the_task_raises(wrapped: Place) -> None:
    sync, other = around.fails.enqueue(), around.fails_async.enqueue()
    for job in (sync, other):
        with pytest.raises(JobFailed, match="ValueError: inside"):
            job.result(timeout=10)
    assert of_job(wrapped, sync.id) == ["outer in", "inner in", "outer error", "outer out"]
    assert of_job(wrapped, other.id) == [
        "outer in", "middle in", "inner in", "middle out", "outer error", "outer out",
    ]  # fmt: skip


def test_a_middleware_that_raises_is_a_failed_attempt_and_the_task_does_not_run(
    wrapped: Place,
) -> None:
    job = around.refused.enqueue()
    with pytest.raises(JobFailed, match="PermissionError: the middleware refuses"):
        job.result(timeout=10)
    assert of_job(wrapped, job.id) == ["outer in", "inner in", "outer out"]
    assert notes(hooks_of(wrapped), "ran though refused") == []


def test_what_an_attempt_sets_is_not_seen_by_its_neighbours(wrapped: Place) -> None:
    jobs = {value: around.sets_and_sees.enqueue(value) for value in "abcdefgh"}
    assert {value: job.result(timeout=10) for value, job in jobs.items()} == {
        value: value for value in jobs
    }


_BROKEN = """
import os
from limpet import App
from worker.notes import note
app = App()
PATH = {path!r}

@app.on_start
def start():
    note(PATH, "start")
    if not os.path.exists(PATH + "-mended"):
        raise ConnectionError("no database")

@app.task
def sync(): return "sync"

@app.task
async def other(): return "async"
"""


def test_a_start_hook_that_raises_is_backed_off_and_the_jobs_stay_safe(place: Place) -> None:
    target = place.module(_BROKEN.format(path=place.notes))
    worker = place.worker(target=target)
    jobs = [place.hand_in(name, "{}") for name in ("sync", "other") * 3]
    logged = worker.until_logged("executor_failed")
    assert "no database" in str(worker.log("executor_failed")), logged
    time.sleep(2.5)
    starts = len(notes(place.notes, "start"))
    assert 2 <= starts <= 20, f"{starts} starts"
    for job in jobs:
        found = place.job(job)
        assert found.state in (State.READY, State.RUNNING)
        assert found.counters == (0, 0, 0)
        assert place.events(job).count("released") <= 10
    Path(f"{place.notes}-mended").touch()
    place.until_over(*jobs, seconds=15)
    assert {place.job(job).state for job in jobs} == {State.SUCCEEDED}
    assert {place.job(job).counters for job in jobs} == {(0, 0, 0)}


def test_a_start_hook_that_fails_in_one_executor_does_not_stop_the_worker_from_stopping(
    place: Place,
) -> None:
    target = place.module(_BROKEN.format(path=place.notes))
    worker = place.worker(target=target)
    worker.until_logged("executor_failed")
    assert worker.stop(10) == 0


_HANGING = """
import os, time
from limpet import App
from worker.notes import note
app = App()
PATH = {path!r}

@app.on_start
def start():
    note(PATH, "start")
    if len(open(PATH).readlines()) == 1:
        time.sleep(600)

@app.task
def sync(): return "sync"
"""


def test_a_start_hook_that_hangs_does_not_keep_jobs_for_ever(place: Place) -> None:
    """Another executor, or another worker, gets what was given to the one that hangs."""
    target = place.module(_HANGING.format(path=place.notes))
    place.worker("--lanes", "1", "--grace", "1s", target=target)
    until(lambda: notes(place.notes, "start"))
    job = place.hand_in("sync", "{}")
    place.worker("--lanes", "1", "--name", "two", target=target)
    place.until_state(job, State.SUCCEEDED, seconds=15)


_STOPS_BADLY = """
import time
from limpet import App
from worker.notes import note
app = App()

@app.on_stop
def raises():
    note({path!r}, "raises")
    raise ValueError("cannot close")

@app.on_stop
def hangs():
    note({path!r}, "hangs")
    time.sleep(600)

@app.task
def sync(): return "sync"
"""


def test_stop_hooks_that_raise_or_hang_do_not_keep_the_worker(place: Place) -> None:
    worker = place.worker(target=place.module(_STOPS_BADLY.format(path=place.notes)))
    place.until_over(place.hand_in("sync", "{}"))
    before = time.monotonic()
    assert worker.stop() == 0
    assert time.monotonic() - before < 4 * crowded()
    assert notes(place.notes, "raises")
    assert notes(place.notes, "hangs"), "one that raises must not keep the next from running"
