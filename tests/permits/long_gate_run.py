"""`limpet gate run` that is stopped, and what must not come of that; run by `make prove`."""

import os
import resource
import signal
import time

from permits.front import LEASE_SECONDS, Run
from permits.measured import Measure
from permits.test_gate_run_stopped import stop_both


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


def test_one_that_waits_goes_on_waiting_where_its_store_cannot_grow(
    run: Run, measure: Measure
) -> None:
    with measure(busy=95) as host:
        front = run("echo", "mine")
        assert front.process.stderr is not None
        front.process.stderr.readline()
        _, most = resource.prlimit(front.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(front.process.pid, resource.RLIMIT_FSIZE, (4096, most))
        while "cannot grow" not in (line := front.process.stderr.readline()):
            assert line
        time.sleep(LEASE_SECONDS)  # so that it has to begin anew
        resource.prlimit(front.process.pid, resource.RLIMIT_FSIZE, (most, most))
        host.say(0)
        assert front.end()[:2] == (0, "mine\n")
