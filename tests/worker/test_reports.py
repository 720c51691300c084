"""Progress and log lines can be seen from outside while the job runs, and are bounded."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from machine import crowded
from pydantic import SecretStr
from worker.place import Place, until
from worker.tasks import reports, results

from limpet import State, Task
from limpet.domain.job import Progress


@pytest.mark.parametrize("task", [reports.tells, reports.tells_async], ids=["sync", "async"])
def test_progress_and_lines_are_seen_while_the_job_runs(
    shared: Place, task: Task[Any, Any]
) -> None:
    before = time.monotonic()
    job = task.enqueue(f"{shared.notes}-go")
    until(lambda: len(shared.log(job)) >= 3, 5)
    assert time.monotonic() - before < 2 * crowded()
    found = shared.job(job)
    assert found.state is State.RUNNING
    assert isinstance(found.progress, Progress)
    assert (found.progress.done, found.progress.total) == (3, 10)
    assert found.progress.note == "the third"
    assert [(line.level, line.message) for line in shared.log(job)] == [
        ("info", "from the context 1"),
        ("debug", "even this"),
        ("warning", "from plain logging"),
    ]
    Path(f"{shared.notes}-go").touch()
    job.result(timeout=10)


@pytest.mark.parametrize("task", [reports.is_brief, reports.is_brief_async], ids=["sync", "async"])
def test_the_lines_of_a_brief_job_are_all_kept(shared: Place, task: Task[Any, Any]) -> None:
    """Also the last ones, which come just before the outcome."""
    jobs = [task.enqueue(3) for _ in range(20)]
    shared.until_over(*jobs)
    lines = ["line 0", "line 1", "line 2"]
    until(lambda: all(shared.lines(job) == lines for job in jobs), 2)
    for job in jobs:
        progress = shared.job(job).progress
        assert progress is not None
        assert progress.note == "done"


def test_the_last_words_before_a_death_are_kept(shared: Place) -> None:
    job = reports.fails_with_words.enqueue()
    shared.until_state(job, State.FAILED)
    until(lambda: "the last words" in shared.lines(job), 2)


def test_lines_from_threads_belong_to_the_job_in_a_lane(shared: Place) -> None:
    job = reports.tells_from_threads.enqueue()
    job.result(timeout=10)
    lines = [
        "context in a pool", "context in a thread", "logging in a pool", "logging in a thread",
    ]  # fmt: skip
    until(lambda: sorted(shared.lines(job)) == lines, 2)


def test_lines_from_threads_belong_to_the_job_in_a_loop(shared: Place) -> None:
    job = reports.tells_from_threads_async.enqueue()
    job.result(timeout=10)
    lines = [
        "context in a pool", "context in a thread", "context in to_thread",
        "logging in a pool", "logging in a thread", "logging in to_thread",
    ]  # fmt: skip
    until(lambda: sorted(shared.lines(job)) == lines, 2)


def test_the_log_is_capped_and_keeps_the_last_lines(shared: Place) -> None:
    job = reports.floods_the_log.enqueue(20_000)
    neighbours = [results.add_async.enqueue(n, 1) for n in range(20)]
    shared.until_over(*neighbours, seconds=10)
    assert job.result(timeout=60) == 20_000
    until(lambda: shared.lines(job)[-1].startswith("line 19999 "), 5)
    assert len(shared.lines(job)) <= 1_001


def test_a_flood_of_progress_does_not_hold_up_the_worker(shared: Place) -> None:
    job = reports.floods_progress.enqueue(50_000)
    before = time.monotonic()
    assert job.result(timeout=60) == 50_000
    assert results.add.enqueue(1, 2).result(timeout=10) == 3
    took = time.monotonic() - before
    assert took < 20 * crowded(), f"{took:.1f} s"


def test_a_very_long_line_and_note_are_cut(shared: Place) -> None:
    job = reports.says_much.enqueue()
    job.result(timeout=10)
    until(lambda: shared.log(job), 2)
    assert 1_000 < len(shared.lines(job)[0]) < 20_000
    progress = shared.job(job).progress
    assert progress is not None
    assert 500 < len(progress.note) < 2_000


def test_nonsense_in_the_log_does_not_harm_the_job(shared: Place) -> None:
    job = reports.says_nonsense.enqueue()
    assert job.result(timeout=10) == "well"
    until(lambda: len(shared.log(job)) == 3, 2)


def test_a_new_logging_configuration_does_not_cut_off_the_jobs_lines(narrow: Place) -> None:
    first = reports.reconfigures_logging.enqueue()
    first.result(timeout=10)
    then = reports.logs_plainly.enqueue()
    then.result(timeout=10)
    until(lambda: narrow.lines(then) == ["plainly"], 3)


def test_secrets_are_masked_wherever_a_job_is_shown(shared: Place) -> None:
    login = reports.Login(user="u", password=SecretStr("hunter2hunter2"))
    job = reports.keeps_secrets.enqueue(login, "tok3n-tok3n")
    assert job.result(timeout=10) == "hunter2hunter2tok3n-tok3n"
    environment = {**os.environ, "LIMPET_URL": shared.url}
    shown = subprocess.run(
        [sys.executable, "-m", "limpet.cli.main", "job", "show", job.id, "--json"],
        capture_output=True, text=True, timeout=20, env=environment, check=True,
    ).stdout  # fmt: skip
    found = json.loads(shown)
    assert found["args"] == {"login": {"user": "u", "password": "***"}, "token": "***"}
    assert found["result"] == "***"
    for text in (shown, shared.last.text, repr(job), repr(shared.job(job))):
        assert "hunter2" not in text
        assert "tok3n" not in text
