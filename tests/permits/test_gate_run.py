"""`limpet gate run`: a command that waits for room, and of which nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lifecycle.processes import alive, below, environment, everything
from machine import crowded
from permits.measured import Measure

from limpet.domain.cause import Requested
from limpet.domain.session import SessionState
from limpet.domain.weight import Weight
from limpet.storage.base import Store

MARK = "LIMPET_TEST_RUN"
PATIENCE_SECONDS = 20.0
LEASE_SECONDS = 10.0

# A tree of three: one that ends at once, and left a daemon in a session of its own.
TREE = "setsid sh -c 'sleep 300 & sleep 300' & sleep 300 & echo started; wait"


class Front:
    """`limpet gate run` as a process, and what belongs to it."""

    def __init__(self, url: str, words: tuple[str, ...], options: tuple[str, ...]) -> None:
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-m", "limpet.cli.main", "gate", "run", "--url", url]
            + [*options, "--", *words],
            env={**os.environ, MARK: self.mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def living(self) -> list[int]:
        """Every process of it, whoever its parent is by now."""
        return [pid for pid in everything() if environment(pid).get(MARK) == self.mark]

    @property
    def guardian(self) -> int:
        (found,) = (each for each in below(self.process.pid) if each.comm == "limpet-run")
        return found.pid

    def end(self) -> tuple[int, str, str]:
        """How it ended: code, output, errors."""
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out, err

    def nothing_is_left(self, seconds: float = 1.0) -> None:
        until = time.monotonic() + seconds * crowded()
        while (left := self.living()) and time.monotonic() < until:
            time.sleep(0.01)
        assert left == [], [str(everything().get(pid)) for pid in left]


Run = Callable[..., Front]


@pytest.fixture
def run(url: str, store: Store, server: str) -> Iterator[Run]:
    started: list[Front] = []

    def begin(*words: str, options: tuple[str, ...] = ()) -> Front:
        front = Front(url, words, options)
        started.append(front)
        return front

    yield begin
    for each in started:
        for pid in each.living():
            os.kill(pid, signal.SIGKILL)
        each.process.communicate()


def until(true: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_exit_code_is_that_of_the_command(run: Run, store: Store, measure: Measure) -> None:
    with measure():
        words = ("sh", "-c", 'read line; echo "$line $1"; exit 7', "-x", "--cpu")
        front = run(*words)
        assert front.process.stdin is not None
        front.process.stdin.write("hello\n")
        assert front.end() == (7, "hello --cpu\n", "")
        assert run("sh", "-c", "kill -TERM $$").end()[0] == 128 + signal.SIGTERM
        assert run("true").end()[0] == 0
    assert store.permits() == ()
    assert all(each.state is SessionState.DEAD for each in store.sessions(with_dead=True))


def test_command_runs_under_a_permit(run: Run, store: Store, measure: Measure) -> None:
    with measure():
        options = ("--cpu", "2", "--memory", "1GiB", "--name", "film")
        front = run("sh", "-c", "echo started; read line", options=options)
        assert front.line() == "started"
        (held,) = store.permits()
        assert (held.what, held.weight) == ("film", Weight(2, "1GiB"))
        late = run("true", options=("--cpu", "2", "--timeout", "0.1s"))
        code, _, said = late.end()
        assert code == 1
        assert "reserved 2 of 3 cores" in said.splitlines()[0]
        assert "there was no room in time" in said.splitlines()[-1]
        front.end()
    assert store.permits() == ()


def test_command_begins_when_room_is_given_back(run: Run, measure: Measure) -> None:
    with measure():
        first = run("sh", "-c", "echo started; read line; exit 0", options=("--heavy",))
        assert first.line() == "started"
        second = run("echo", "second", options=("--heavy",))
        assert second.process.stderr is not None
        assert "has heavy work" in second.process.stderr.readline()
        assert first.end()[0] == 0
        assert second.end()[:2] == (0, "second\n")


def test_nothing_is_left_when_the_command_ends(run: Run, measure: Measure) -> None:
    with measure():
        daemon = "setsid sleep 300 & (sleep 300 &) ; exit 5"
        front = run("sh", "-c", daemon)
        assert front.end()[0] == 5
        front.nothing_is_left(0.0)


def test_nothing_is_left_when_the_front_is_killed(run: Run, store: Store, measure: Measure) -> None:
    with measure():
        front = run("sh", "-c", TREE, options=("--cpu", "3"))
        assert front.line() == "started"
        assert len(front.living()) >= 5
        waiting = run("echo", "mine", options=("--cpu", "3"))
        assert waiting.process.stderr is not None
        waiting.process.stderr.readline()
        began = time.monotonic()
        front.process.kill()
        front.nothing_is_left()
        assert waiting.line() == "mine"
        print(f"its room was another's after {time.monotonic() - began:.2f} s")
        assert time.monotonic() - began < 1.0 * crowded() + 0.5
        assert waiting.end()[0] == 0
    assert store.permits() == ()


def test_nothing_is_left_when_the_guardian_is_killed(
    run: Run, store: Store, measure: Measure
) -> None:
    with measure():
        front = run("sh", "-c", TREE)
        assert front.line() == "started"
        os.kill(front.guardian, signal.SIGKILL)
        assert front.end()[0] == 128 + signal.SIGKILL
        front.nothing_is_left(0.0)
    assert store.permits() == ()


def test_neighbour_ends_what_is_left_when_both_are_killed(
    run: Run, store: Store, measure: Measure
) -> None:
    with measure():
        front = run("sh", "-c", TREE, options=("--cpu", "3"))
        assert front.line() == "started"
        waiting = run("echo", "mine", options=("--cpu", "3"))
        assert waiting.process.stderr is not None
        waiting.process.stderr.readline()
        guardian = front.guardian
        os.kill(front.process.pid, signal.SIGSTOP)
        os.kill(guardian, signal.SIGKILL)
        os.kill(front.process.pid, signal.SIGKILL)
        assert waiting.line() == "mine"
        assert front.living() == []  # before its room is another's
        assert waiting.end()[0] == 0


def test_signal_to_the_front_reaches_the_command(run: Run, measure: Measure) -> None:
    script = "trap 'echo told; exit 9' TERM; echo started; while :; do sleep 0.05; done"
    with measure():
        front = run("sh", "-c", script)
        assert front.line() == "started"
        front.process.terminate()
        assert front.end()[:2] == (9, "told\n")


def test_signal_to_the_group_reaches_the_command_once(run: Run, measure: Measure) -> None:
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: print('told', flush=True))\n"
        "print('started', flush=True)\n"
        "until = time.monotonic() + 1\n"
        "while time.monotonic() < until: time.sleep(0.05)\n"
    )
    with measure():
        front = run(sys.executable, "-c", script)
        assert front.line() == "started"
        os.killpg(front.process.pid, signal.SIGINT)
        assert front.end()[:2] == (0, "told\n")


def test_second_signal_ends_a_command_that_will_not_stop(run: Run, measure: Measure) -> None:
    with measure():
        front = run("sh", "-c", "trap '' TERM INT; echo started; sleep 300; sleep 300")
        assert front.line() == "started"
        front.process.terminate()
        time.sleep(0.5)
        assert front.process.poll() is None
        front.process.terminate()
        assert front.end()[0] == 128 + signal.SIGKILL
        front.nothing_is_left(0.0)


def test_two_different_signals_leave_the_command_its_grace(run: Run, measure: Measure) -> None:
    """As a service manager sends them, or a terminal that is closed."""
    script = (
        "import signal, sys, time\n"
        "told = []\n"
        "for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):\n"
        "    signal.signal(each, lambda number, frame: told.append(number))\n"
        "print('started', flush=True)\n"
        "while len(told) < 3: time.sleep(0.01)\n"
        "time.sleep(0.5)\n"
        "print('tidied', flush=True)\n"
        "sys.exit(9)\n"
    )
    with measure():
        front = run(sys.executable, "-c", script)
        assert front.line() == "started"
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            front.process.send_signal(number)
        assert front.end()[:2] == (9, "tidied\n")


def test_signal_that_its_sender_sends_twice_at_once_is_one(run: Run, measure: Measure) -> None:
    """As `timeout` does: to the process, then to its group."""
    tidy = "trap 'sleep 0.5; echo tidied; exit 9' TERM"
    script = f"{tidy}; echo started; while :; do sleep 0.05; done"
    with measure():
        front = run("sh", "-c", script)
        assert front.line() == "started"
        front.process.terminate()
        time.sleep(0.02)  # so that the two do not become one on their way
        front.process.terminate()
        assert front.end()[:2] == (9, "tidied\n")


def test_command_is_ended_when_its_permit_is_lost(run: Run, store: Store, measure: Measure) -> None:
    with measure():
        front = run("sh", "-c", TREE)
        assert front.line() == "started"
        (held,) = store.permits()
        store.end(held.session, Requested("a person"))
        code, _, said = front.end()
        assert code == 1
        assert "is not held any more" in said
        front.nothing_is_left(0.0)


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


def test_command_goes_on_when_all_was_stopped_for_less_than_the_lease(
    run: Run, measure: Measure
) -> None:
    with measure():
        front = run("sh", "-c", "echo started; read line; echo $line; exit 7")
        assert front.line() == "started"
        stop_both(front)
        time.sleep(3.0)
        for pid in (front.process.pid, front.guardian):
            os.kill(pid, signal.SIGCONT)
        time.sleep(LEASE_SECONDS)  # nor is it killed when the time has passed that it was left
        assert front.process.stdin is not None
        front.process.stdin.write("on\n")
        front.process.stdin.flush()
        assert front.end()[:2] == (7, "on\n")


def test_one_that_waits_may_be_stopped_for_longer_than_the_lease(
    run: Run, measure: Measure
) -> None:
    with measure(busy=95) as host:
        front = run("echo", "mine")
        assert front.process.stderr is not None
        front.process.stderr.readline()
        os.kill(front.process.pid, signal.SIGSTOP)
        time.sleep(LEASE_SECONDS + 1.0)
        os.kill(front.process.pid, signal.SIGCONT)
        host.say(0)
        assert front.end()[:2] == (0, "mine\n")


def test_signal_while_it_waits_leaves_nothing(run: Run, store: Store, measure: Measure) -> None:
    with measure(busy=95):
        both = (signal.SIGTERM, signal.SIGHUP)
        for numbers in ((signal.SIGTERM,), (signal.SIGINT,), both):
            front = run("true")
            assert front.process.stderr is not None
            assert "CPU 95 % of 80 %" in front.process.stderr.readline()
            for number in numbers:
                front.process.send_signal(number)
            assert front.end()[0] in {128 + number for number in numbers}
            assert store.sessions() == ()
            assert not alive(front.process.pid)


def test_one_inside_of_another_is_refused(run: Run, url: str, measure: Measure) -> None:
    """It would wait for the end of what it is a part of."""
    inner = (sys.executable, "-m", "limpet.cli.main", "gate", "run", "--url", url, "--", "true")
    with measure():
        code, out, err = run(*inner, options=("--heavy",)).end()
    assert (code, out) == (2, "")
    assert err.startswith("limpet: limpet gate run is inside of a job, or of another limpet gate")
