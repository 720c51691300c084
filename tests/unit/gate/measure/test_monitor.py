"""A poll tells what a host carries, and costs next to nothing."""

import os
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from machine_tree import GIB, MachineTree

from limpet.domain.assessment import Capacity
from limpet.domain.clock import SystemClock
from limpet.domain.load import Smoothing
from limpet.domain.reading import ExecutorUse
from limpet.gate.assess import Thresholds
from limpet.gate.measure.monitor import Monitor
from limpet.gate.published import Published, published_of, written
from limpet.testing.clock import FakeClock

SECOND = timedelta(seconds=1)


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    tree = MachineTree(tmp_path)
    tree.machine()
    return tree


def test_the_reading_is_smoothed_upwards_fast_and_downwards_slowly(tree: MachineTree) -> None:
    clock = FakeClock()
    smoothing = Smoothing(rise=0.75, fall=0.25)
    monitor = Monitor("web-2", clock, root=str(tree), cpus=4, smoothing=smoothing)
    seen = []
    for busy in (0, 100, 0, 0):
        tree.ticks(busy, 100 - busy)
        clock.advance(SECOND)
        reading = monitor.poll()
        seen.append((reading.cpu_raw, reading.cpu_ema, reading.cpu_effective))
    assert seen == [(0, 0, 0), (200, 150, 200), (0, 112.5, 112.5), (0, 84.38, 84.38)]
    assert reading.cpu_busy == pytest.approx(84.38 / 4)
    monitor.close()


def test_a_reading_is_dated_by_both_clocks(tree: MachineTree) -> None:
    clock = FakeClock()
    monitor = Monitor("web-2", clock, root=str(tree), cpus=4)
    reading = monitor.poll()
    assert (reading.host, reading.at, reading.at_boot) == ("web-2", clock.wall(), clock.boot())
    assert reading.cpu_raw is None
    assert "CPU not known yet" in reading.source


def test_a_poll_too_soon_keeps_the_cpu_of_the_last(tree: MachineTree) -> None:
    clock = FakeClock()
    monitor = Monitor("web-2", clock, root=str(tree), cpus=4)
    tree.ticks(100, 0)
    clock.advance(SECOND)
    first = monitor.poll()
    clock.advance(timedelta(milliseconds=1))
    assert monitor.poll().cpu_raw == first.cpu_raw == 200


def test_the_real_machine_is_read_cheaply() -> None:
    monitor = Monitor("here", SystemClock(), disk="/")
    time.sleep(0.1)
    reading = monitor.poll()
    assert reading.cpu_raw is not None
    assert 0 <= reading.cpu_raw <= 100 * reading.cores
    assert reading.memory_total
    polls = 50
    before = time.process_time()
    for _ in range(polls):
        monitor.poll()
    monitor.close()
    # Ten milliseconds a second are 1 % of a core; it takes less than one of them.
    assert (time.process_time() - before) / polls < 0.01


def test_a_reading_survives_the_way_through_json(tree: MachineTree) -> None:
    clock = FakeClock()
    monitor = Monitor("web-2", clock, root=str(tree), disk=str(tree), cpus=4)
    tree.ticks(50, 50)
    clock.advance(SECOND)
    executors = (ExecutorUse("session", 10, 12.5, 3 * GIB),)
    reading = replace(monitor.poll(), executor_use=executors, cpu_others=4.5, memory_held=GIB)
    published = Published(
        reading, Capacity(2.5, None), Thresholds(cpu=65), "boot", "worker", "session"
    )
    assert published_of(written(published)) == published
    assert len(written(published)) < 900
    later = written(published).replace('{"host"', '{"gpu":1,"host"', 1)
    assert published_of(later) == published


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"reading": 7}'])
def test_a_text_that_is_no_reading_is_unknown(text: str) -> None:
    assert published_of(text) is None


def test_a_closed_monitor_holds_no_files() -> None:
    before = set(os.listdir("/proc/self/fd"))
    monitor = Monitor("here", SystemClock())
    monitor.poll()
    monitor.close()
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_disk_that_does_not_answer_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file system on a network does whose server is away, for as long as that is."""
    back, asked = threading.Event(), 0

    def statvfs(path: str) -> os.statvfs_result:
        nonlocal asked
        asked += 1
        back.wait(30)
        return statvfs_of_root

    statvfs_of_root = os.statvfs("/")
    monkeypatch.setattr(os, "statvfs", statvfs)
    monitor = Monitor("here", SystemClock())
    began = time.monotonic()
    readings = [monitor.poll() for _ in range(5)]
    assert time.monotonic() - began < 5
    assert asked == 1
    for reading in readings:
        assert reading.disk_free is None
        assert "disk not known: it does not answer" in reading.source
    back.set()
    until = time.monotonic() + 10
    while (reading := monitor.poll()).disk_free is None:
        assert time.monotonic() < until
    assert "disk" not in reading.source
    monitor.close()
