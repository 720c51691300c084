"""`limpet gate run` that is stopped: nothing of it runs past the lease."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from machine import crowded
from permits.front import LEASE_SECONDS, Front, Run, until
from permits.measured import Measure

from limpet.storage.contract.store import Store

# A tree of three: one that ends at once, and left a daemon in a session of its own.
TREE = "setsid sh -c 'sleep 300 & sleep 300' & sleep 300 & echo started; wait"

# Says each hundredth of a second that it runs, in a session of its own.
RECORDER = (
    "import os, sys, time\n"
    "os.setsid()\n"
    "with open(sys.argv[1], 'w') as file:\n"
    "    while True:\n"
    "        print(time.monotonic(), file=file, flush=True)\n"
    "        time.sleep(0.01)\n"
)
STARTER = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', *sys.argv[1:]])\n"
    "print('started', flush=True)\n"
    "child.wait()\n"
)
CLOCK = "import time; print(time.monotonic(), flush=True)"


def test_command_of_a_frozen_front_is_ended_before_its_lease_passes_on(
    run: Run, store: Store, measure: Measure
) -> None:
    with measure():
        front = run("sh", "-c", TREE)
        assert front.line() == "started"
        os.kill(front.process.pid, signal.SIGSTOP)
        began = time.monotonic()
        until(lambda: front.living() == [front.process.pid])
        assert time.monotonic() - began < LEASE_SECONDS
        (session,) = store.sessions()
        assert not session.overdue
        # Stopped for so long, it is killed itself.
        assert front.end()[0] == -signal.SIGKILL


def recording(run: Run, path: Path) -> Front:
    """One that has all the room, and whose child records when it ran."""
    front = run(sys.executable, "-c", STARTER, RECORDER, str(path), options=("--cpu", "3"))
    assert front.line() == "started"
    until(lambda: recorded(path))
    return front


def recorded(path: Path) -> list[float]:
    """When the child ran."""
    return [float(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def stop_both(front: Front) -> None:
    os.kill(front.guardian, signal.SIGSTOP)
    os.kill(front.process.pid, signal.SIGSTOP)


def stop_guardian_and_kill_front(front: Front) -> None:
    os.kill(front.guardian, signal.SIGSTOP)
    front.process.kill()


def stop_front_and_kill_guardian(front: Front) -> None:
    guardian = front.guardian
    os.kill(front.process.pid, signal.SIGSTOP)
    os.kill(guardian, signal.SIGKILL)


@pytest.mark.parametrize(
    "strike", [stop_both, stop_guardian_and_kill_front, stop_front_and_kill_guardian]
)
def test_room_is_not_anothers_before_what_is_left_of_a_stopped_one_is_dead(
    run: Run, measure: Measure, tmp_path: Path, strike: Callable[[Front], None]
) -> None:
    with measure():
        front = recording(run, tmp_path / "times")
        waiting = run(sys.executable, "-c", CLOCK, options=("--cpu", "3"))
        assert waiting.process.stderr is not None
        waiting.process.stderr.readline()
        struck = time.monotonic()
        strike(front)
        began = float(waiting.line())
        assert front.living() == []
        assert waiting.end()[0] == 0
        last = recorded(tmp_path / "times")[-1]
        print(f"ended {last - struck:.2f} s after it was struck, passed on {began - struck:.2f} s")
        assert last < began
        assert began - struck < LEASE_SECONDS + 2.0 * crowded()
