"""SIGTERM and Ctrl-C: stop claiming, finish what runs, hand back the rest; nobody is charged."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from machine import crowded
from worker.notes import notes
from worker.place import Handle, Place, until
from worker.tasks import cancelling, leaving, limits, queues, reports, results

from limpet import State
from limpet.host import processes


def slow(place: Place, name: str) -> str:
    return f"{place.notes}-{name}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_lets_running_jobs_finish(place: Place, number: signal.Signals) -> None:
    worker = place.worker()
    sync = reports.tells.enqueue(slow(place, "go"))
    other = reports.tells_async.enqueue(slow(place, "go"))
    until(lambda: place.log(sync) and place.log(other))
    worker.signal(number)
    worker.until_logged("worker_draining")
    late = results.add.enqueue(1, 2)
    time.sleep(0.5)
    assert worker.popen.poll() is None
    Path(slow(place, "go")).touch()
    assert worker.wait() == 0
    for job in (sync, other):
        assert place.job(job).state is State.SUCCEEDED
        assert place.job(job).counters == (0, 0, 0)
    assert place.job(late).state is State.READY, "it went on claiming"


def test_what_does_not_finish_in_time_is_handed_back_uncharged(place: Place) -> None:
    worker = place.worker("--drain", "0.3s")
    jobs = [cancelling.waits.enqueue(slow(place, "1")), cancelling.waits_async.enqueue(place.notes)]
    until(lambda: notes(slow(place, "1")) and notes(place.notes))
    before = time.monotonic()
    assert worker.stop() == 0
    assert time.monotonic() - before < 0.3 + 3 * crowded()
    for job in jobs:
        found = place.job(job)
        assert found.state is State.READY
        assert found.counters == (0, 0, 0)
        assert "asked to stop" in str(place.cause(job, "released").cause)
    assert notes(slow(place, "1"), "clean")
    assert notes(place.notes, "clean")


def test_a_task_that_leaves_early_for_a_drain_is_handed_back(place: Place) -> None:
    """It looked at `ctx.cancelled` and returned: it is not done, so it did not succeed."""
    worker = place.worker("--drain", "0.2s")
    job = cancelling.looks.enqueue(place.notes)
    until(lambda: notes(place.notes))
    assert worker.stop() == 0
    assert notes(place.notes, "clean")
    assert place.job(job).state is State.READY


def test_a_second_signal_hands_back_at_once(place: Place) -> None:
    worker = place.worker("--drain", "60s")
    jobs = [limits.ignores.using(timeout=100).enqueue(place.notes)]
    jobs.append(cancelling.swallows_async.enqueue(slow(place, "1")))
    until(lambda: notes(slow(place, "1")) and notes(place.notes))
    worker.signal()
    worker.until_logged("worker_draining")
    time.sleep(0.3)
    assert worker.popen.poll() is None
    before = time.monotonic()
    worker.signal()
    assert worker.wait() == 0
    assert time.monotonic() - before < 3 * crowded()
    for job in jobs:
        assert place.job(job).state is State.READY
        assert place.job(job).counters == (0, 0, 0)


def test_a_finished_outcome_is_not_lost_to_a_second_signal(place: Place) -> None:
    """One is done and waits for its executor's end; its neighbour still has the grace."""
    worker = place.worker("--drain", "60s", "--grace", "30s")
    neighbour = limits.neighbour.enqueue(slow(place, "1"), 40.0)
    until(lambda: notes(slow(place, "1")))
    done = leaving.leaves_a_thread_async.enqueue(place.notes)
    worker.until_logged("executor_doomed")
    worker.signal()
    worker.until_logged("worker_draining")
    worker.signal()
    assert worker.wait() == 0
    assert place.job(neighbour).state is State.READY
    assert place.job(done).state is State.SUCCEEDED


def test_ctrl_c_to_the_whole_group_charges_nobody(place: Place) -> None:
    """A shell signals the group: executors and what jobs started must not take it for theirs."""
    worker = place.worker("--drain", "20s")
    jobs: list[Handle] = [
        reports.tells.enqueue(slow(place, "go")),
        reports.tells_async.enqueue(slow(place, "go")),
        leaving.runs_a_program.enqueue(slow(place, "go")),
    ]
    until(lambda: all(place.job(job).progress for job in jobs))
    for pid in [worker.pid, *sorted(processes.descendants(worker.pid))]:
        # Harsher than a terminal: also those that left the group get it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    worker.until_logged("worker_draining")
    time.sleep(0.3)
    Path(slow(place, "go")).touch()
    assert worker.wait() == 0
    for job in jobs[:2]:
        assert place.job(job).state is State.SUCCEEDED, place.events(job)
        assert place.job(job).counters == (0, 0, 0)


def test_ctrl_c_in_a_terminal_leaves_a_jobs_program_alone(place: Place) -> None:
    worker = place.worker("--drain", "20s")
    job = leaving.runs_a_program.enqueue(slow(place, "go"))
    until(lambda: place.job(job).progress)
    os.killpg(worker.pid, signal.SIGINT)
    worker.until_logged("worker_draining")
    time.sleep(0.3)
    Path(slow(place, "go")).touch()
    assert worker.wait() == 0
    assert place.job(job).state is State.SUCCEEDED, place.job(job).error
    assert place.job(job).counters == (0, 0, 0)


def test_what_had_not_started_is_handed_back_at_once(place: Place) -> None:
    """No job begins after the drain has, so that another worker can take it now."""
    worker = place.worker("--lanes", "1", "--drain", "20s")
    jobs = [queues.numbered.enqueue(place.notes, n, 0.05) for n in range(60)]
    until(lambda: len(notes(place.notes)) >= 10)
    worker.signal()
    drained = worker.until_logged("worker_draining")
    assert worker.wait() == 0
    begun = len(notes(place.notes))
    states = [place.job(job).state for job in jobs]
    assert states.count(State.SUCCEEDED) == begun
    assert states.count(State.READY) == 60 - begun
    assert begun < 30, drained
    assert {place.job(job).counters for job in jobs} == {(0, 0, 0)}


@pytest.mark.parametrize("after", [0.0, 0.15, 0.3])
def test_ctrl_c_while_it_starts_ends_it_without_a_traceback(place: Place, after: float) -> None:
    """From the moment on at which the command has become the guardian."""
    worker = place.begin_worker()
    command = Path(f"/proc/{worker.pid}/cmdline")
    until(lambda: b"limpet.worker.guardian" in command.read_bytes())
    time.sleep(0.1 + after)
    os.killpg(worker.pid, signal.SIGINT)
    assert worker.wait(10) in (0, 1, 130)
    assert "Traceback" not in worker.text
    assert "KeyboardInterrupt" not in worker.text


def test_a_rolling_restart_runs_every_job_once_and_charges_nobody(place: Place) -> None:
    jobs: list[Handle] = []
    for n in range(150):
        jobs.append(queues.numbered.enqueue(place.notes, n, 0.02))
        jobs.append(queues.numbered_async.enqueue(place.notes, n + 1_000))
        jobs.append(queues.in_a_async.enqueue(slow(place, "a"), 0.05))
    worker = place.worker("--async-jobs", "5")
    for _ in range(2):
        until(lambda: notes(place.notes), said="it runs")
        following = place.begin_worker("--async-jobs", "5")
        time.sleep(0.3)
        assert worker.stop() == 0
        worker = following.until_ready()
    place.until_over(*jobs, seconds=40)
    assert {place.job(job).counters for job in jobs} == {(0, 0, 0)}
    numbers = [each["number"] for each in notes(place.notes, "run")]
    assert len(numbers) == len(set(numbers)) == 300
    assert len(notes(slow(place, "a"), "begin")) == 150
