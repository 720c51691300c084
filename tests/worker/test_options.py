"""The options of `limpet worker` that change how long it, or an executor, lives."""

import os
import time
from pathlib import Path

import pytest
from worker.notes import notes
from worker.place import Place, until
from worker.tasks import attacks, leaving, limits, results, retries

from limpet import Retry, State
from limpet.domain.cause import OutOfMemory


def test_burst_stops_when_nothing_is_ready(place: Place) -> None:
    jobs = [results.add.enqueue(n, 1) for n in range(30)]
    jobs += [results.add_async.enqueue(n, 1) for n in range(30)]
    slow = limits.neighbour.enqueue(place.notes, 0.5)
    worker = place.begin_worker("--burst")
    assert worker.wait(20) == 0
    assert {place.job(job).state for job in [*jobs, slow]} == {State.SUCCEEDED}
    assert place.begin_worker("--burst").wait(10) == 0


def test_burst_runs_what_its_jobs_hand_in(place: Place) -> None:
    from worker.tasks import inside

    job = inside.enqueues_many.enqueue(50)
    assert place.begin_worker("--burst").wait(20) == 0
    ids = job.result(timeout=1)
    assert set(place.store.states(ids).values()) == {State.SUCCEEDED}


def test_burst_does_not_wait_for_what_is_scheduled_or_unknown(place: Place) -> None:
    results.add.using(delay=60).enqueue(1, 2)
    place.hand_in("nobody knows this", "{}")
    assert place.begin_worker("--burst").wait(10) == 0


def test_executors_are_replaced_after_max_jobs_and_nothing_is_lost(place: Place) -> None:
    place.worker("--max-jobs", "5", "--lanes", "1", "--async-jobs", "3")
    sync = [leaving.pid.enqueue() for _ in range(40)]
    other = [leaving.pid_async.enqueue() for _ in range(40)]
    for jobs in (sync, other):
        pids = [job.result(timeout=30) for job in jobs]
        counts = {pid: pids.count(pid) for pid in pids}
        assert len(counts) >= 3
        # What was given to it ahead may still run there.
        assert max(counts.values()) <= 15, counts
    for job in sync + other:
        assert place.job(job).counters == (0, 0, 0)


def test_a_long_job_survives_the_replacement_of_its_executor(place: Place) -> None:
    place.worker("--max-jobs", "2")
    long = limits.neighbour.enqueue(place.notes, 1.5)
    until(lambda: notes(place.notes))
    for _ in range(10):
        leaving.pid_async.enqueue().result(timeout=10)
    assert long.result(timeout=10) == 1
    assert place.job(long).counters == (0, 0, 0)


def test_an_executor_over_max_rss_is_ended_and_the_cause_is_told(place: Place) -> None:
    place.worker("--max-rss", "150MB", "--lanes", "1")
    job = attacks.hoards.enqueue(place.notes)
    assert job.result(timeout=20) == 2
    cause = place.cause(job, "orphaned").cause
    assert isinstance(cause, OutOfMemory)
    assert cause.limit == 150_000_000
    assert place.job(job).counters == (0, 1, 1)


_VERSION = """
from limpet import App
app = App()

@app.task
def version(): return {version!r}
"""


def _write(place: Place, text: str) -> None:
    path = place.folder / "own.py"
    path.write_text(text, encoding="utf-8")
    # However coarse the clock of the file system is, it has changed.
    changed = time.time() + len(text)
    os.utime(path, (changed, changed))


def _version(place: Place) -> object:
    job = place.hand_in("version", "{}")
    place.until_state(job, State.SUCCEEDED)
    return job.result(timeout=1)


def test_reload_picks_up_changed_code(place: Place) -> None:
    target = place.module(_VERSION.format(version="one"))
    place.worker("--reload", target=target)
    assert _version(place) == "one"
    _write(place, _VERSION.format(version="the second"))
    place.last.until_logged("reloading")
    until(lambda: len(place.last.log("worker_ready")) == 2)
    assert _version(place) == "the second"


def test_reload_waits_for_a_file_that_was_saved_half(place: Place) -> None:
    """A slip while typing must not end the worker of a developer."""
    target = place.module(_VERSION.format(version="one"))
    worker = place.worker("--reload", target=target)
    _write(place, "from limpet import App\napp = App(\n")
    worker.until_logged("reloading")
    time.sleep(1.5)
    assert worker.popen.poll() is None, "the worker gave up"
    _write(place, _VERSION.format(version="mended again"))
    until(lambda: len(worker.log("worker_ready")) == 2)
    assert _version(place) == "mended again"


def test_reload_sees_changes_in_an_app_that_starts_threads(place: Place) -> None:
    threads = (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    )
    target = place.module(threads + _VERSION.format(version="one"))
    place.worker("--reload", target=target)
    _write(place, threads + _VERSION.format(version="the second"))
    place.last.until_logged("reloading", 5)
    until(lambda: len(place.last.log("worker_ready")) == 2)
    assert _version(place) == "the second"


def test_sighup_starts_anew(place: Place) -> None:
    import signal

    place.module(_VERSION.format(version="one"))
    worker = place.worker(target="own:app")
    _write(place, _VERSION.format(version="after the signal"))
    worker.signal(signal.SIGHUP)
    until(lambda: len(worker.log("worker_ready")) == 2)
    assert _version(place) == "after the signal"
    assert worker.stop() == 0


def test_settings_come_from_variables_and_the_file_too(place: Place) -> None:
    (place.folder / "limpet.toml").write_text('[worker]\nname = "from-file"\nlanes = 1\n')
    worker = place.worker(env={"LIMPET_LANES": "2"})
    said = worker.log("worker_ready")[0]["message"]
    assert "worker from-file is ready" in said
    assert "2 lanes" in said


def test_a_job_whose_task_no_worker_knows_is_blocked_and_runs_once_one_does(place: Place) -> None:
    place.worker()
    job = place.hand_in("version", "{}")
    found = place.until_state(job, State.BLOCKED, seconds=5)
    assert found.blocked_by is not None
    assert "version" in found.blocked_by
    events = place.events(job)
    time.sleep(1.0)
    assert place.events(job) == events, "it spins"
    assert place.job(job).counters == (0, 0, 0)
    shown = _show(place, job.id)
    assert "needs task version" in shown
    place.worker(target=place.module(_VERSION.format(version="known")), env={})
    place.until_state(job, State.SUCCEEDED, seconds=5)
    assert job.result(timeout=1) == "known"


def test_a_job_known_to_one_of_two_workers_runs_there(place: Place) -> None:
    place.worker()
    place.worker(target=place.module(_VERSION.format(version="known")))
    jobs = [place.hand_in("version", "{}") for _ in range(5)]
    place.until_over(*jobs)
    assert results.add.enqueue(1, 1).result(timeout=10) == 2


def _show(place: Place, job: str) -> str:
    import subprocess
    import sys

    return subprocess.run(
        [sys.executable, "-m", "limpet.cli.main", "job", "show", job],
        capture_output=True, text=True, check=True, env={**os.environ, "LIMPET_URL": place.url},
        timeout=20,
    ).stdout  # fmt: skip


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_retries_go_on_after_a_restart(place: Place, kind: str) -> None:
    task = retries.fails_twice if kind == "sync" else retries.fails_twice_async
    job = task.using(retry=Retry(backoff="fixed", delay=0.5)).enqueue(place.notes)
    first = place.worker()
    place.until_state(job, State.SCHEDULED)
    assert first.stop() == 0
    place.worker()
    assert job.result(timeout=10) == 3
    assert place.job(job).counters == (2, 0, 0)
    assert Path(place.notes).exists()
