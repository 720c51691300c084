"""Ctrl-C, and whatever a handler of signals raises, at any moment of a permit."""

import concurrent.futures
import dis
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from machine import crowded
from permits.interrupted import NAME
from permits.measured import Measure
from servers.proxy import Proxy

import limpet
from limpet import App
from limpet.domain.clock import SystemClock
from limpet.host.proofs import forget, proof
from limpet.maintenance.sweeper import Sweeper
from limpet.storage.contract.store import Store

PROGRAM = str(Path(__file__).parent / "interrupted.py")
# So long the thread that renews an abandoned permit may sleep.
RENEWAL_SECONDS = 2.0
SOON_SECONDS = 2.5
PATIENCE_SECONDS = 60.0

# Python itself swallows an interrupt that comes while it removes a dead weak reference.
SWALLOWED = re.compile(
    r"Exception ignored in: <function WeakSet.*\nTraceback .*\n(?: .*\n|\n)*KeyboardInterrupt: \n"
)

Program = subprocess.Popen[str]
Start = Callable[..., Program]


@pytest.fixture
def start(server: str) -> Iterator[Start]:
    started: list[Program] = []

    def begin(url: str, mode: str, *delays: float) -> Program:
        words = [sys.executable, PROGRAM, url, mode, *map(str, delays)]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield begin
    for each in started:
        each.kill()
        each.communicate()


def outcomes(program: Program) -> list[Any]:
    """What became of each time; it must be through in time, and leave by itself."""
    out, err = program.communicate(timeout=PATIENCE_SECONDS * crowded())
    assert (program.returncode, SWALLOWED.sub("", err)) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def none_is_left(store: Store, seconds: float = RENEWAL_SECONDS + 1.0) -> None:
    """All are given back; or found dead, as by whoever waits: a program may end in the moment after
    an interrupt that kept it from leaving.
    """
    sweeper = Sweeper(store, None, proof, SystemClock(), forget=forget)
    until = time.monotonic() + seconds * crowded()
    while left := [each.id for each in store.sessions() if each.name == NAME]:
        assert time.monotonic() < until, left
        sweeper.prove()
        time.sleep(0.02)


def test_wait_is_over_soon_whenever_it_is_interrupted(
    url: str, store: Store, start: Start, measure: Measure
) -> None:
    delays = [0.0005 + 0.06 * step for step in range(10)]
    with measure(busy=95):
        for outcome, late, alive in outcomes(start(url, "waiting", *delays)):
            assert (outcome, alive) == ("interrupted", [])
            assert late < SOON_SECONDS * crowded()
    none_is_left(store)


def test_permit_is_given_back_whenever_it_is_interrupted(
    url: str, store: Store, start: Start, measure: Measure
) -> None:
    """While it is asked for, had and left, all of which takes a few milliseconds."""
    parts = [step / 100 for step in range(120)]
    with measure():
        found = outcomes(start(url, "leaving", *parts))
        assert "interrupted" in {each[0] for each in found}
        assert max(late for _, late, _ in found) < SOON_SECONDS * crowded()
        none_is_left(store)
        for outcome, late, alive in outcomes(start(url, "inside", 0.2, 0.25)):
            assert (outcome, alive) == ("interrupted", [])
            assert late < SOON_SECONDS * crowded()


@pytest.mark.parametrize(
    ("mode", "delay"),
    [("waiting", 0.0), ("waiting", 0.1), ("inside", 0.02), ("inside", 0.3), ("async", 0.3)],
)
def test_program_that_is_interrupted_ends(
    url: str, store: Store, start: Start, measure: Measure, mode: str, delay: float
) -> None:
    with measure(busy=0 if mode == "inside" else 95):
        program = start(url, mode)
        assert program.stdout is not None
        assert program.stdout.readline() == "asks\n"
        time.sleep(delay)
        program.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, err = program.communicate(timeout=PATIENCE_SECONDS * crowded())
        assert time.monotonic() - began < SOON_SECONDS * crowded()
        assert program.returncode == -signal.SIGINT
        assert err.rstrip().endswith("KeyboardInterrupt")
        none_is_left(store)


@pytest.mark.not_on("sqlite", "there is no network between")
def test_wait_for_a_store_that_does_not_answer_can_be_interrupted(
    url: str, store: Store, start: Start, measure: Measure
) -> None:
    port = int(url.rpartition(":")[2].partition("/")[0])
    proxy = Proxy(port)
    try:
        with measure(busy=95):
            program = start(proxy.url(url, port), "waiting")
            assert program.stdout is not None
            assert program.stdout.readline() == "asks\n"
            time.sleep(1.0)
            proxy.hang()
            time.sleep(0.7)
            program.send_signal(signal.SIGINT)
            began = time.monotonic()
            _, err = program.communicate(timeout=PATIENCE_SECONDS * crowded())
            assert time.monotonic() - began < 2 * SOON_SECONDS * crowded()
            assert program.returncode == -signal.SIGINT
            assert err.rstrip().endswith("KeyboardInterrupt")
    finally:
        proxy.close()


# -- at each step

OURS = str(Path(limpet.__file__).parent)
OTHERS = {each.__file__ for each in (threading, concurrent.futures._base)}
# Those of Python 3.11, and what a call with keywords is since 3.13.
_LOOKING = ("RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD")
LOOKS = {dis.opmap[name] for name in _LOOKING if name in dis.opmap}


class Strike:
    """Raises while this thread enters and leaves a permit, at the so manieth moment at which Python
    looks whether a signal has come: as a function begins, after a call, and in a loop.
    """

    def __init__(self, step: int) -> None:
        self.where = ""
        self._left = step
        self._before: dict[FrameType, int] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(OURS) and file not in OTHERS:
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            self._before[frame] = dis.opmap["RESUME"]
        if event == "opcode":
            before = self._before.get(frame)
            self._before[frame] = frame.f_code.co_code[frame.f_lasti]
            self._left -= before in LOOKS
            if self._left == 0:
                self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
                sys.settrace(None)
                self._before.clear()  # which would keep what is to be forgotten
                raise KeyboardInterrupt
        return self


def entered_and_left(app: App, strike: Strike) -> None:
    before = sys.gettrace()
    sys.settrace(strike)
    try:
        with app.permit(name=NAME):
            pass
    finally:
        sys.settrace(before)


@pytest.mark.not_on("redis", "the steps of this thread have nothing to do with the store")
@pytest.mark.not_on("postgres", "the steps of this thread have nothing to do with the store")
def test_permit_is_given_back_at_whatever_step_it_is_interrupted(
    app: App, store: Store, measure: Measure
) -> None:
    with measure():
        for step in range(1, 1000):
            strike = Strike(step)
            began = time.monotonic()
            try:
                entered_and_left(app, strike)
            except KeyboardInterrupt:
                assert strike.where
            assert time.monotonic() - began < 1.0 * crowded(), strike.where
            # Where the body has ended, and leaving has not begun, its thread gives it back.
            waits = RENEWAL_SECONDS + 1.0 if strike.where.startswith("Permit.__exit__") else 0.0
            none_is_left(store, waits)
            if not strike.where:
                break
        print(f"struck {step - 1} times")
        assert 50 < step < 999
