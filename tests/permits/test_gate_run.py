"""`limpet gate run`: a command that waits for room, and of which nothing is left behind."""

import os
import signal
import sys
import time

from lifecycle.processes import alive
from machine import crowded
from permits.front import Run
from permits.measured import Measure

from limpet.domain.cause import Requested
from limpet.domain.session import SessionState
from limpet.domain.weight import Weight
from limpet.storage.contract.store import Store

# A tree of three: one that ends at once, and left a daemon in a session of its own.
TREE = "setsid sh -c 'sleep 300 & sleep 300' & sleep 300 & echo started; wait"


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
