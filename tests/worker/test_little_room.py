"""A worker that lacks something says in one sentence what to raise, and does not try for ever."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest
from lifecycle.modes import Mode
from machine import crowded
from worker.place import MARK, TESTS, Place, Worker, until

from limpet.domain.worker_settings import WorkerSettings
from limpet.worker.wire.plan import Plan

SOURCE = """
import os, sys, time
from limpet import App
app = App("sqlite://")

@app.task
def speaks(path: str) -> list[str]:
    print("lost", flush=True)
    print("lost", file=sys.stderr, flush=True)
    return [os.readlink(f"/proc/self/fd/{n}") for n in range(3)]
"""
LIMPET = (sys.executable, "-m", "limpet.cli.main")
HASTY_GUARDIAN = """
import sys
from limpet.worker.guardian import guardian
guardian._LONGEST_PAUSE_SECONDS = 0.1
sys.exit(guardian.main())
"""
# One that gets so little of the machine that to start a supervisor takes longer than a freeze may.
STARVED_GUARDIAN = """
import sys, time
from limpet.host import processes
from limpet.worker.guardian import guardian
spawn = processes.spawn
def spawn_slowly(*args):
    time.sleep(1.5)
    return spawn(*args)
processes.spawn = spawn_slowly
sys.exit(guardian.main())
"""


def in_shell(
    place: Place, line: str, *words: str, before: tuple[str, ...] = (), seconds: float = 30
) -> "subprocess.CompletedProcess[str]":
    """Run the command line behind a shell that has limited it; `line` may use "$@"."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LIMPET_")}
    return subprocess.run(
        [*before, "bash", "-c", line, "bash", *LIMPET, *words],
        cwd=place.folder,
        env={**environment, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds * crowded(),
        check=False,
    )


def assert_sentence(text: str, *parts: str) -> None:
    assert "Traceback" not in text
    for part in parts:
        assert part in text, text


@pytest.mark.parametrize("closed", ["0", "1", "2", "012"])
def test_a_worker_runs_without_standard_streams(place: Place, closed: str) -> None:
    target = place.module(SOURCE)
    job = place.hand_in("speaks", '{"path": "x"}')
    shut = " ".join(f"{number}>&-" for number in closed)
    done = in_shell(place, f'"$@" {shut}', "worker", target, "--burst", "--url", place.url)
    assert_sentence(done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr
    # None of them is a file of the worker's own.
    places = job.result(timeout=1)
    assert {places[int(number)] for number in closed} == {"/dev/null"}


@pytest.mark.parametrize("words", [("jobs",), ("queues", "--json"), ("job", "show", "x")])
def test_a_command_that_cannot_print_says_so(place: Place, words: tuple[str, ...]) -> None:
    place.hand_in("speaks", "{}")
    closed = in_shell(place, '"$@" >&-', *words, "--url", place.url)
    assert closed.returncode == 2
    assert_sentence(closed.stderr, "standard output is closed", ">/dev/null")
    if words[0] != "job":
        full = in_shell(place, '"$@" >/dev/full', *words, "--url", place.url)
        assert full.returncode == 2
        assert_sentence(full.stderr, "standard output cannot be written", "there is no room left")
        assert len(full.stderr.splitlines()) == 1
    mute = in_shell(place, '"$@" 2>&-', *words, "--url", place.url)
    assert_sentence(mute.stdout + mute.stderr)
    piped = in_shell(place, '"$@" | true; echo ${PIPESTATUS[0]}', *words, "--url", place.url)
    assert_sentence(piped.stderr)
    assert piped.stdout in ("0\n", "2\n")


def test_too_few_files_are_said_to_be_too_few(place: Place) -> None:
    target = place.module(SOURCE)
    for few in (10, 16, 24, 32, 48):
        done = in_shell(place, f'ulimit -n {few}; "$@"', "worker", target, "--url", place.url)
        assert done.returncode == 2, done.stderr
        assert_sentence(done.stderr, "ulimit -n")
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(Mode.NON_ROOT.missing is not None, reason=str(Mode.NON_ROOT.missing))
def test_too_few_processes_are_said_to_be_too_few(place: Place) -> None:
    target = place.module(SOURCE)
    for parent in (place.folder, *place.folder.parents[:2]):
        parent.chmod(0o777)
    done = in_shell(
        place, 'ulimit -u 6; "$@"', "worker", target, "--url", place.url,
        before=Mode.NON_ROOT.wrapper,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert_sentence(done.stderr, "ulimit -u", "6 processes and threads")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("kilobytes", [60_000, 90_000])
def test_too_little_memory_ends_in_sentences(place: Place, kilobytes: int) -> None:
    target = place.module(SOURCE)
    done = in_shell(
        place, f'ulimit -v {kilobytes}; timeout 20 "$@"', "worker", target, "--url", place.url
    )
    assert_sentence(done.stderr, "ulimit -v")
    assert done.returncode not in (0, 124), done.stderr


def worker_of(place: Place, guardian: str, target: str, lease: float = 10.0) -> Worker:
    """A worker with a guardian of that source."""
    plan = Plan(
        target, url=place.url, log_style="json", settings=WorkerSettings(lease=lease)
    ).environment()
    log_file = place.folder / f"worker{len(place.workers)}.log"
    with log_file.open("ab") as log:
        popen = subprocess.Popen(
            [sys.executable, "-c", guardian],
            cwd=place.folder,
            env={**os.environ, **plan, "PYTHONPATH": str(TESTS), MARK: place.mark},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    worker = Worker(popen, log_file)
    place.workers.append(worker)
    return worker


def test_a_worker_that_is_never_ready_gives_up_after_five_tries(place: Place) -> None:
    target = place.module("import time\ntime.sleep(600)\n" + SOURCE)
    worker = worker_of(place, HASTY_GUARDIAN, target)

    def kills_until_it_ends() -> bool:
        # What a supervisor has just forked has its name for a moment, and is no try.
        for line in place.living():
            pid, name = line.split()[:2]
            if name == "limpet-super":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        return worker.popen.poll() is not None

    until(kills_until_it_ends)
    assert worker.wait() not in (0, None)
    assert_sentence(worker.text, "was never ready in 5 tries and gives up")


def test_a_worker_that_was_ready_does_not_give_up(place: Place) -> None:
    worker = worker_of(place, HASTY_GUARDIAN, place.module(SOURCE)).until_ready()
    (place.folder / "own.py").write_text("import os\nos._exit(3)\n")
    os.kill(place.process("limpet-super"), signal.SIGKILL)
    until(lambda: worker.text.count("before it was ready") >= 6)
    assert worker.popen.poll() is None
    (place.folder / "own.py").write_text(SOURCE)
    until(lambda: len(worker.log("worker_ready")) == 2)


def test_a_worker_that_starts_slowly_does_not_end_itself(place: Place) -> None:
    """While a supervisor is started there is no lease to keep to: a busy machine is no freeze."""
    worker = worker_of(place, STARVED_GUARDIAN, place.module(SOURCE), lease=4.0).until_ready()
    os.kill(place.process("limpet-super"), signal.SIGKILL)
    until(lambda: len(worker.log("worker_ready")) == 2)
