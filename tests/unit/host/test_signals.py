"""Signals and ended children, as whoever polls for both sees them."""

import contextlib
import os
import select
import signal
import subprocess
import sys

from limpet.host.signals import SignalPipe


def test_a_signal_is_read_and_does_nothing_else() -> None:
    with contextlib.closing(SignalPipe(signal.SIGTERM, signal.SIGUSR2)) as pipe:
        assert pipe.read() == b""
        for number in (signal.SIGTERM, signal.SIGUSR2, signal.SIGTERM):
            signal.raise_signal(number)
        assert select.select([pipe], [], [], 5)[0] == [pipe]
        assert list(pipe.read()) == [signal.SIGTERM, signal.SIGUSR2, signal.SIGTERM]


def test_after_it_signals_do_what_they_did_before() -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)]
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    opened = set(os.listdir("/proc/self/fd"))
    SignalPipe(signal.SIGTERM, signal.SIGUSR2).close()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)] == handlers
    assert signal.set_wakeup_fd(descriptor) == descriptor
    assert set(os.listdir("/proc/self/fd")) == opened


def test_in_a_forked_child_signals_do_what_they_do_by_default() -> None:
    code = (
        "import os, signal\n"
        "from limpet.host.signals import SignalPipe\n"
        "pipe = SignalPipe(signal.SIGTERM)\n"
        "if (child := os.fork()) == 0:\n"
        "    pipe.leave_to_parent()\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    os._exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), list(pipe.read()))\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert answer.stdout == b"-15 []\n"


def test_each_child_that_has_ended_is_told_until_it_is_reaped() -> None:
    code = (
        "import subprocess, sys\n"
        "from limpet.host.signals import ended_children\n"
        "assert list(ended_children()) == []\n"
        "running = subprocess.Popen(['sleep', '60'])\n"
        "ended = [subprocess.Popen(['true']) for _ in range(2)]\n"
        "found = set()\n"
        "while len(found) < 2:\n"
        "    for pid in ended_children():\n"
        "        found.add(pid)\n"
        "        next(each for each in ended if each.pid == pid).wait()\n"
        "assert found == {each.pid for each in ended}\n"
        "running.kill()\n"
        "running.wait()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
