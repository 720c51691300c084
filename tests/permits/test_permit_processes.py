"""Permits of processes of their own: no more than fit, and none of the dead."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from machine import crowded
from permits.measured import Measure

from limpet import App
from limpet.domain.session import SessionState
from limpet.storage.contract.store import Store

ASKERS, FIT = 20, 3
SHORT_LEASE = 2.0

Holder = subprocess.Popen[str]
Start = Callable[..., Holder]


@pytest.fixture
def start(url: str, server: str) -> Iterator[Start]:
    """Start a holder; whatever becomes of the test, none is left."""
    started: list[Holder] = []

    def begin(cpu: float = 1.0, lease: float = 10.0) -> Holder:
        program = str(Path(__file__).parent / "holder.py")
        process = subprocess.Popen(
            [sys.executable, program, url, str(cpu), str(lease)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for each in started:
        each.kill()
        each.communicate()


def told(process: Holder) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: Holder) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def held(start: Start, **options: float) -> Holder:
    """A holder that has its permit."""
    process = start(**options)
    assert told(process) == "ready"
    go_on(process)
    assert told(process) == "held"
    return process


def test_of_twenty_who_ask_at_once_three_hold_until_all_are_through(
    store: Store, start: Start, measure: Measure
) -> None:
    askers = [start() for _ in range(ASKERS)]
    for each in askers:
        assert told(each) == "ready"
    through = 0
    with measure(cores=FIT):
        for each in askers:
            go_on(each)
        waiting = {each.stdout.fileno(): each for each in askers if each.stdout}
        holding: list[Holder] = []
        while through < ASKERS:
            wanted = min(FIT, ASKERS - through)
            until = time.monotonic() + 20
            # So many hold, and for a while no other comes in beside them.
            while len(holding) < wanted and time.monotonic() < until:
                ready, _, _ = select.select(list(waiting), [], [], 0.5)
                for descriptor in ready:
                    asker = waiting.pop(descriptor)
                    assert told(asker) == "held"
                    holding.append(asker)
                assert len(store.permits()) <= FIT
            assert len(holding) == wanted
            assert select.select(list(waiting), [], [], 0.3)[0] == []
            assert len(store.permits()) == wanted
            leaver = holding.pop(0)
            go_on(leaver)
            assert told(leaver) == "left"
            through += 1
    assert [each.wait() for each in askers] == [0] * ASKERS
    assert store.permits() == ()


def test_room_of_a_killed_holder_is_back_within_a_second(
    app: App, store: Store, start: Start, measure: Measure
) -> None:
    with measure():
        holder = held(start, cpu=3)
        asker = start(cpu=3)
        assert told(asker) == "ready"
        go_on(asker)
        time.sleep(1.5)
        (holds,) = store.permits()
        began = time.monotonic()
        holder.kill()
        assert told(asker) == "held"
        took = time.monotonic() - began
        (now,) = store.permits()
        assert now.session != holds.session
        print(f"room was back after {took:.2f} s")
        assert took < 1.0 * crowded()
        (dead,) = (each for each in store.sessions(with_dead=True) if each.id == holds.session)
        assert dead.state is SessionState.DEAD
        assert dead.lock is None or not os.path.exists(dead.lock.path)
        go_on(asker)
        assert told(asker) == "left"


def test_room_of_a_holder_whose_lock_cannot_be_seen_is_back_after_its_lease(
    store: Store, start: Start, measure: Measure
) -> None:
    with measure():
        holder = held(start, cpu=3, lease=SHORT_LEASE)
        asker = start(cpu=3, lease=SHORT_LEASE)
        assert told(asker) == "ready"
        go_on(asker)
        time.sleep(SHORT_LEASE + 1.0)
        (session,) = {each.session for each in store.permits()}
        (row,) = (each for each in store.sessions() if each.id == session)
        assert row.lock is not None
        for path in (row.lock.path, row.lock.path + ".core"):
            os.unlink(path)  # as in a container that does not share the directory
        began = time.monotonic()
        holder.kill()
        assert told(asker) == "held"
        took = time.monotonic() - began
        print(f"room was back after {took:.2f} s")
        assert SHORT_LEASE * 0.7 < took < SHORT_LEASE + 1.0 * crowded()


def test_forked_child_does_not_keep_the_room_of_a_killed_holder(
    app: App, store: Store, start: Start, measure: Measure, url: str
) -> None:
    forking = (
        "import os, sys, time\n"
        "from limpet import App\n"
        "with App(sys.argv[1]).permit(cpu=3):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        time.sleep(30)\n"
        "        os._exit(0)\n"
        "    print(child, flush=True)\n"
        "    time.sleep(30)\n"
    )
    with measure():
        words = [sys.executable, "-c", forking, url]
        holder = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        child = int(told(holder))
        try:
            holder.kill()
            began = time.monotonic()
            with app.permit(cpu=3, timeout=20):
                assert time.monotonic() - began < 2.0 * crowded()
                os.kill(child, 0)  # it lives on
        finally:
            os.kill(child, 9)
            holder.communicate()
