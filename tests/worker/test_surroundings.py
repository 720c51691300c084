"""What a job changes in its process: the next one finds it as it was, or in another process."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worker.jobs import app
from worker.notes import notes
from worker.place import Handle, Place, until
from worker.tasks import surroundings
from worker.tasks.surroundings import (
    BY_ANYBODY,
    BY_ROOT,
    FOR_EVER,
    FOR_EVER_BY_ROOT,
    LONG_SECONDS,
    may_raise_limits,
)

from limpet import State, Task

AS_ROOT = os.geteuid() == 0
PUT_BACK = [*BY_ANYBODY, *(BY_ROOT if AS_ROOT else ()), "all at once"]
REPLACED = [*FOR_EVER, *(FOR_EVER_BY_ROOT if AS_ROOT else ())]
(REPLACED, PUT_BACK)[may_raise_limits()].append("hard limits")
# What was not called by its name in Python is found after a while.
UNSEEN = [
    "environment by C code", "environment cleared by C code", "memory killer", "root by C code",
    "namespace", "no new privileges", "death with its parent", "care for orphans",
    "standard output", "open files", "all at once",
]  # fmt: skip
ENVIRONMENT = {"PRESENT": "as it was", "TO_DELETE": "not yet"}


@pytest.fixture(scope="module")
def _changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("changing"), app)
    place.worker("--lanes", "1", "--async-jobs", "4", env=ENVIRONMENT)
    yield place
    app.registry.move_to(place.url)
    place.close()


@pytest.fixture
def changing(_changing: Place, tmp_path: Path) -> Iterator[Place]:
    """A worker with one lane, so that each job follows the one before in the same process."""
    kept = _changing
    app.registry.move_to(kept.url)
    before = len(kept.last.text)
    yield Place(kept.folder, kept.app, kept.mark, kept.workers, tmp_path / "notes")
    print(kept.last.text[before:])


def said_by(job: Handle) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(job.result(timeout=20))
    return found


def what_is_seen(task: Task[Any, Any] = surroundings.says_what_it_sees) -> dict[str, Any]:
    return said_by(task.enqueue())


def replaced(place: Place) -> list[dict[str, Any]]:
    return place.last.log("executor_changed")


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    names = before.keys() | after.keys()
    return {n: (before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)}


@pytest.mark.parametrize("how", PUT_BACK)
def test_what_a_job_changed_is_put_back_before_the_next_in_its_lane(
    changing: Place, how: str
) -> None:
    before, lines = what_is_seen(), len(replaced(changing))
    job = surroundings.changes_its_process.enqueue(how, LONG_SECONDS if how in UNSEEN else 0.0)
    follower: Handle = surroundings.says_what_it_sees.enqueue()
    after = said_by(follower)
    # The same process, and so much as it was that only this one thing can have been done.
    assert differences(before, after) == {}
    assert changing.until_state(job).state is State.SUCCEEDED
    assert changing.job(job).counters == changing.job(follower).counters == (0, 0, 0)
    assert len(replaced(changing)) == lines


@pytest.mark.parametrize("how", REPLACED)
def test_a_lane_that_cannot_be_put_back_is_replaced_after_its_job_is_settled(
    changing: Place, how: str
) -> None:
    before, lines = what_is_seen(), len(replaced(changing))
    job = surroundings.changes_its_process.enqueue(how, LONG_SECONDS if how in UNSEEN else 0.0)
    followers: list[Handle] = [surroundings.says_what_it_sees.enqueue() for _ in range(3)]
    for follower in followers:
        after = said_by(follower)
        assert after.pop("pid") != before["pid"]
        assert differences({**before, "pid": None}, after) == {}
        assert changing.job(follower).counters == (0, 0, 0)
    found = changing.until_state(job)
    assert (found.state, found.counters) == (State.SUCCEEDED, (0, 0, 0)), changing.events(job)
    (line,) = replaced(changing)[lines:]
    assert line["task"] == "changes_its_process"
    assert "cannot be put back" in line["message"]


def test_variables_set_while_a_module_is_imported_stay_and_others_go(
    changing: Place, tmp_path: Path
) -> None:
    before = what_is_seen()
    name = f"sets_a_variable_{os.getpid()}"
    job = surroundings.imports_a_module.enqueue(str(tmp_path), name)
    after = what_is_seen()
    assert job.result(timeout=20) == "kept"
    assert after["pid"] == before["pid"]
    assert after["environment"] == {**before["environment"], "SET_ON_IMPORT": "kept"}
    assert after["c environment"] == after["environment"]


def test_what_an_async_job_changed_is_put_back_when_its_loop_is_idle(changing: Place) -> None:
    def seen() -> dict[str, Any]:
        return what_is_seen(surroundings.says_what_it_sees_async)

    before = seen()
    for how in ("umask", "environment", "processors", "folder", "signal mask"):
        surroundings.changes_its_process_async.enqueue(how, changing.notes).result(timeout=20)
        until(lambda: differences(before, seen()) == {}, 10, f"{how} is put back")


def test_a_loop_that_cannot_be_put_back_is_replaced_and_what_runs_in_it_ends_well(
    changing: Place, tmp_path: Path
) -> None:
    word, lines = tmp_path / "word", len(replaced(changing))
    running = surroundings.waits_for_a_file.enqueue(changing.notes, str(word))
    until(lambda: notes(changing.notes, "begin"))
    before = what_is_seen(surroundings.says_what_it_sees_async)
    how = "no new privileges"
    surroundings.changes_its_process_async.enqueue(how, changing.notes).result(timeout=20)
    until(lambda: len(replaced(changing)) > lines, 10, "the loop is to be replaced")
    after = what_is_seen(surroundings.says_what_it_sees_async)
    assert after["pid"] != before["pid"]
    assert after["NoNewPrivs"] == "0"
    word.touch()
    assert running.result(timeout=20) == before["pid"]
    assert changing.job(running).counters == (0, 0, 0)


def test_a_lane_that_has_cut_its_way_to_the_supervisor_is_ended_and_charged(
    changing: Place,
) -> None:
    job = surroundings.cuts_its_ways.enqueue(changing.notes)
    follower: Handle = surroundings.says_what_it_sees.enqueue()
    found = changing.until_state(job, seconds=20)
    assert (found.state, found.counters.strikes) == (State.FAILED, 3), changing.events(job)
    assert len(notes(changing.notes, "run")) == 3
    assert follower.result(timeout=20)
    assert changing.job(follower).counters == (0, 0, 0)


_IN_A_REMOVED_FOLDER = """
import os, tempfile
from limpet import App

app = App(os.environ["STORE"])

@app.on_start
def leave() -> None:
    gone = tempfile.mkdtemp()
    os.chdir(gone)
    os.rmdir(gone)

@app.task
def in_a_lane() -> str:
    return "done"

@app.task
async def in_the_loop() -> str:
    return "done"
"""


def test_jobs_run_in_a_folder_that_was_removed_before_the_first(place: Place) -> None:
    target = place.module(_IN_A_REMOVED_FOLDER)
    jobs = [place.hand_in(task, "{}") for task in ("in_a_lane", "in_the_loop")]
    place.worker(target=target, env={"STORE": place.url})
    for job in place.until_over(*jobs):
        assert (job.state, job.counters) == (State.SUCCEEDED, (0, 0, 0))
