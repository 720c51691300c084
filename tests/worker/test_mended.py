"""What a review proved to be wrong, and must not come back."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from worker.notes import notes
from worker.place import TESTS, Place, until
from worker.tasks import looping, queues, results

from limpet import State


def test_jobs_are_taken_back_though_the_zygote_is_stopped(place: Place) -> None:
    """A stopped zygote tells of no death: the supervisor must not wait for it for ever."""
    place.worker("--lease", "4s", "--lanes", "1")
    job = queues.in_a.enqueue(place.notes, 5.0)
    until(lambda: place.job(job).begun, said="the job begins")
    os.kill(place.process("limpet-zygote"), signal.SIGSTOP)
    os.kill(place.process("limpet-lane"), signal.SIGKILL)
    until(lambda: place.job(job).token > 1, seconds=8, said="the next attempt")
    assert place.job(job).counters.orphans == 1
    place.until_over(job)


def test_a_fork_that_fails_costs_those_who_run_nothing(place: Place) -> None:
    target = place.module(
        "import os\n"
        "from worker.jobs import app\n"
        "real, asked = os.fork, []\n"
        "def fork():\n"
        "    asked.append(1)\n"
        "    if 2 < len(asked) < 6:\n"
        "        raise BlockingIOError(11, 'Resource temporarily unavailable')\n"
        "    return real()\n"
        "os.fork = fork\n"
    )
    worker = place.worker("--lanes", "2", target=target)
    long_one = queues.in_a.enqueue(place.notes, 2.0)
    until(lambda: place.job(long_one).begun, said="the long one begins")
    other = queues.in_a.enqueue(place.notes, 0.01)
    place.until_over(long_one, other)
    assert worker.log("executor_failed")
    assert not worker.log("session_over")
    assert place.job(long_one).counters.orphans == 0
    assert len(notes(place.notes, "end")) == 2


def test_what_the_shell_started_before_is_not_ended_with_a_supervisor(place: Place) -> None:
    command = (
        f"sleep 60 & echo $! > {place.folder}/sidecar; "
        f"exec {sys.executable} -m limpet.cli.main worker worker.jobs:app --url '{place.url}'"
    )
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with (place.folder / "shell.log").open("wb") as log:
        shell = subprocess.Popen(
            ["sh", "-c", command], cwd=place.folder, env=environment, stdout=log, stderr=log
        )
    try:
        place.until_over(results.add.enqueue(1, 2))
        sidecar = int(Path(place.folder, "sidecar").read_text())
        below = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
        supervisor = next(pid for pid in map(int, below) if pid != sidecar)
        os.kill(supervisor, signal.SIGKILL)
        place.until_over(results.add.enqueue(1, 2))
        os.kill(sidecar, 0)
        os.kill(sidecar, signal.SIGKILL)
    finally:
        shell.terminate()
        assert shell.wait(15) == 0


def test_a_second_signal_long_after_the_first_still_hands_back_in_order(place: Place) -> None:
    worker = place.worker("--drain", "20s", "--lanes", "1")
    job = queues.in_a.enqueue(place.notes, 30.0)
    until(lambda: place.job(job).begun, said="the job begins")
    worker.signal()
    time.sleep(3.5)
    worker.signal()
    assert worker.wait(5) == 0
    assert place.job(job).state is State.READY
    assert place.job(job).counters.orphans == 0
    job.cancel()


def test_a_signal_during_a_slow_start_is_heard(place: Place) -> None:
    target = place.module("import time\ntime.sleep(30)\nfrom worker.jobs import app\n")
    worker = place.begin_worker(target=target)
    until(lambda: [line for line in place.living() if "limpet-zygote" in line], said="the zygote")
    worker.signal()
    assert worker.wait(5) == 0


def test_a_blocked_loop_is_given_no_more_jobs(place: Place) -> None:
    """Jobs that nobody here can take are left to others, not claimed and released for ever."""
    place.worker()
    blocker = looping.blocks_the_loop.enqueue(3.0)
    until(lambda: place.job(blocker).begun, said="the blocker begins")
    others = [queues.in_a_async.enqueue(place.notes, 0.0) for _ in range(10)]
    place.until_over(blocker, *others)
    assert max(place.job(each).token for each in others) <= 4
