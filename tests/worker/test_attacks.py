"""What users do that nobody expects must cost them, at most, the job that did it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machine import crowded
from worker.notes import notes
from worker.place import Place, until
from worker.tasks import attacks, cancelling, inside, orphans, results, retries

from limpet import State, Task
from limpet.domain.state import FINAL

# Of the narrow worker.
GRACE = 4.0


def is_well(place: Place) -> None:
    """The worker runs everything, and is the one it was."""
    jobs = [results.add.enqueue(n, 1) for n in range(6)]
    jobs += [results.add_async.enqueue(n, 1) for n in range(6)]
    assert [job.result(timeout=15) for job in jobs] == [1, 2, 3, 4, 5, 6] * 2
    assert len(place.last.log("worker_ready")) == 1


@pytest.fixture
def spoilt(narrow: Place, tmp_path: Path) -> Iterator[Place]:
    """The narrow one, whose lane gets a new process afterwards."""
    yield narrow
    assert orphans.dies_once.enqueue(str(tmp_path / "death")).result(timeout=15) == "second"


def test_a_flood_of_prints_harms_nobody(shared: Place) -> None:
    jobs = [attacks.prints.enqueue(20_000), attacks.prints_async.enqueue(20_000)]
    assert [job.result(timeout=30) for job in jobs] == [20_000, 20_000]
    is_well(shared)


def test_an_output_that_nobody_reads_does_not_stop_the_supervisor(place: Place) -> None:
    """A job that prints into a full pipe waits; the heartbeat and the other jobs must not."""
    reader, writer = os.pipe()
    try:
        place.begin_worker("--lanes", "2", "--lease", "2s", stdout=writer, stderr=writer)
        jobs = [results.add.enqueue(n, 1) for n in range(3)]
        place.until_over(*jobs)
        session = place.job(jobs[0]).session
        stuck = attacks.prints.enqueue(5_000)
        place.until_state(stuck, State.RUNNING)
        time.sleep(0.3)
        # Each failure is a line of the worker's own log.
        failing = [retries.gives_up.enqueue(f"{place.notes}-{n}") for n in range(30)]
        place.until_over(*failing, seconds=15)
        time.sleep(2.0)
        last = results.add_async.enqueue(1, 1)
        assert last.result(timeout=10) == 2
        assert place.job(last).session == session, "the session was lost"
        assert place.job(stuck).counters == (0, 0, 0)
    finally:
        os.close(writer)
        os.set_blocking(reader, False)
        _drain_pipe(reader, place)
        os.close(reader)


def _drain_pipe(reader: int, place: Place) -> None:
    """Read on while the worker stops, so that it can."""
    place.last.signal()
    until = time.monotonic() + 10
    while place.last.popen.poll() is None and time.monotonic() < until:
        try:
            os.read(reader, 1 << 16)
        except BlockingIOError:
            time.sleep(0.01)


@pytest.mark.parametrize(
    "task", [attacks.closes_all_files, attacks.closes_all_files_async], ids=["sync", "async"]
)
def test_a_task_that_closes_all_files_ends_itself_only(shared: Place, task: Task[Any, Any]) -> None:
    job = task.enqueue(shared.notes)
    found = shared.until_state(job, seconds=15)
    assert found.state is State.FAILED
    assert found.counters.strikes == 3
    is_well(shared)


@pytest.mark.parametrize(
    "task",
    [attacks.closes_the_standard_files, attacks.closes_standard_output],
    ids=["descriptors", "objects"],
)
def test_a_task_that_closes_its_output_harms_nobody(spoilt: Place, task: Task[Any, Any]) -> None:
    assert task.enqueue().result(timeout=10) == "closed"
    is_well(spoilt)


def test_signal_handlers_of_one_job_do_not_keep_the_next_from_being_stopped(spoilt: Place) -> None:
    assert attacks.takes_all_signals.enqueue().result(timeout=10) == "taken"
    job = attacks.waits_to_be_stopped.enqueue(spoilt.notes)
    until(lambda: notes(spoilt.notes, "begin"))
    before = time.monotonic()
    job.cancel()
    assert spoilt.until_state(job).state is State.CANCELLED
    assert time.monotonic() - before < min(2.5 * crowded(), GRACE), "only force helped"
    assert notes(spoilt.notes, "clean")


def test_an_alarm_left_by_one_job_does_not_kill_the_next(narrow: Place) -> None:
    attacks.leaves_an_alarm.enqueue(0.4).result(timeout=10)
    job = attacks.sleeps_a_bit.enqueue(narrow.notes, 0.8)
    assert job.result(timeout=10) == 1
    assert narrow.job(job).counters == (0, 0, 0)


def test_a_call_cut_short_by_the_tasks_own_alarm_does_not_mix_up_answers(place: Place) -> None:
    place.worker("--lanes", "1")
    assert attacks.is_alarmed_while_it_asks.enqueue(1_000).result(timeout=20) == []
    # The next job of that lane can hand in jobs too: no lock was left held, no write under way.
    assert len(inside.enqueues.enqueue().result(timeout=10)) == 2


@pytest.mark.parametrize("how", ["returns", "raises", "exits"])
@pytest.mark.parametrize("task", [attacks.forks, attacks.forks_async], ids=["sync", "async"])
def test_a_forked_child_that_comes_back_does_not_speak_for_the_job(
    narrow: Place, task: Task[Any, Any], how: str
) -> None:
    job = task.enqueue(narrow.notes, how)
    found = narrow.until_state(job, State.SUCCEEDED, State.FAILED)
    assert found.state is State.SUCCEEDED, found.error
    assert found.result == '"the parent\'s result"'
    assert len(notes(narrow.notes, "child")) == len(notes(narrow.notes, "parent")) == 1
    for n in range(12):
        assert results.add.enqueue(n, 1).result(timeout=10) == n + 1
        assert results.add_async.enqueue(n, 1).result(timeout=10) == n + 1


def test_a_forked_child_may_log_and_may_not_enqueue(shared: Place) -> None:
    shared.until_over(attacks.forks.enqueue(shared.notes, "logs"))
    job = attacks.forks.enqueue(f"{shared.notes}-2", "enqueues")
    assert job.result(timeout=10) == "the parent's result"
    assert "forked" in notes(f"{shared.notes}-2", "refused")[0]["text"]


def test_processes_that_log_at_once_do_not_break_the_way_to_the_supervisor(narrow: Place) -> None:
    job = attacks.logs_from_processes.enqueue(4, 1_500)
    found = narrow.until_state(job, seconds=60)
    assert found.state is State.SUCCEEDED, narrow.events(job)
    assert found.counters == (0, 0, 0)
    is_well(narrow)


def test_a_task_that_changes_folder_does_not_lead_later_ones_astray(place: Place) -> None:
    """The store's URL may be relative to where the worker was started."""
    place.worker("--lanes", "1", url="sqlite:///jobs.db")
    elsewhere = str(place.folder / "elsewhere")
    assert attacks.changes_folder.enqueue(elsewhere).result(timeout=10) == elsewhere
    job = attacks.waits_elsewhere.enqueue()
    found = place.until_state(job)
    assert found.state is State.SUCCEEDED, found.error
    assert os.listdir(elsewhere) == []


def test_a_spoiled_environment_harms_the_executor_at_most(spoilt: Place) -> None:
    assert attacks.spoils_the_environment.enqueue().result(timeout=10) == "spoiled"
    is_well(spoilt)


def test_a_task_that_asks_a_person_does_not_wait(shared: Place) -> None:
    assert attacks.asks_a_person.enqueue().result(timeout=10) == "nobody there"


def test_odd_names_and_open_signatures_work(shared: Place) -> None:
    assert attacks.oddly_named.enqueue().result(timeout=10) == "odd"
    assert attacks.takes_anything.enqueue(**{"äöü": 1, "b": [2]}).result(timeout=10) == 2


def test_a_tracer_and_a_small_stack_left_behind_do_not_break_the_lane(spoilt: Place) -> None:
    assert attacks.traces.enqueue().result(timeout=10) == "traced"
    is_well(spoilt)
    assert attacks.starts_something_long.enqueue().result(timeout=10) == 0


def test_ten_thousand_jobs_of_many_tasks_all_end(place: Place) -> None:
    calls: list[Any] = []
    for n in range(2_500):
        calls.append(results.add.call(n, 1))
        calls.append(results.add_async.call(n, 1))
        calls.append(results.nothing_async.call())
        calls.append(retries.chooses.call(place.notes, "other" if n % 50 == 0 else "lasting")
                     if n % 10 == 0 else results.nothing.call())  # fmt: skip
    jobs = place.app.enqueue_many(calls)
    place.worker("--lanes", "2")
    before = time.monotonic()
    wanted = {job.id for job in jobs}
    give_up = before + 60
    while wanted:
        chunk = sorted(wanted)[:1000]
        states = place.store.states(chunk)
        wanted -= {each for each, state in states.items() if state in FINAL}
        assert time.monotonic() < give_up, f"{len(wanted)} are left"
        time.sleep(0.02)
    counts = {queue.name: queue.counts for queue in place.store.queues()}["default"]
    assert counts[State.FAILED] == 250
    assert counts[State.SUCCEEDED] == 9_750
    assert place.store.invariants() == ()


@pytest.mark.parametrize("task", [results.length, results.length_async], ids=["sync", "async"])
def test_many_jobs_with_huge_arguments_do_not_choke_an_executor(
    place: Place, task: Task[Any, Any]
) -> None:
    text = "x" * 1_000_000
    jobs = [task.enqueue(text) for _ in range(40)]
    place.worker("--lanes", "2")
    before = time.monotonic()
    place.until_over(*jobs, seconds=60)
    took = time.monotonic() - before
    assert took < 15 * crowded(), f"{took:.1f} s for 40 MB"
    assert place.last.log("loop_blocked") == []


def test_two_apps_in_one_module_do_not_mix(place: Place) -> None:
    place.module(
        "from limpet import App\n"
        "app = App()\nother = App()\n"
        "@app.task\ndef one(): return 'one'\n"
        "@other.task\ndef two(): return 'two'\n"
    )
    place.worker(target="own:app")
    one, two = place.hand_in("one", "{}"), place.hand_in("two", "{}")
    place.until_state(one, State.SUCCEEDED)
    place.until_state(two, State.BLOCKED, seconds=5)
    place.worker(target="own:other")
    place.until_state(two, State.SUCCEEDED, seconds=5)


def test_a_worker_can_be_watched_by_the_command_line_meanwhile(shared: Place) -> None:
    job = cancelling.waits_async.enqueue(shared.notes)
    until(lambda: notes(shared.notes))
    words = [sys.executable, "-m", "limpet.cli.main", "workers", "--json"]
    shown = subprocess.run(
        words, capture_output=True, text=True, check=True, timeout=20,
        env={**os.environ, "LIMPET_URL": shared.url},
    ).stdout  # fmt: skip
    assert [each["state"] for each in json.loads(shown)] == ["live"]
    job.cancel()
    shared.until_over(job)
