"""A poll tells what a host carries, for each executor too, and costs next to nothing."""

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from machine_tree import MachineTree

from limpet.domain.assessment import Capacity
from limpet.domain.clock import SystemClock
from limpet.domain.load import Smoothing
from limpet.domain.reading import Use
from limpet.host.gate import Thresholds
from limpet.host.monitor import Monitor
from limpet.host.proc import Trees
from limpet.host.wire import Published, published_of, written
from limpet.testing.clock import FakeClock

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
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


def test_an_executor_counts_with_everything_below_it(tree: MachineTree) -> None:
    trees = Trees(str(tree))
    tree.process(10, 1, ticks=100, pages=5)
    tree.process(11, 10, ticks=10, pages=7)
    tree.process(12, 11, pages=1)
    tree.process(20, 1, ticks=1, pages=2)
    tree.process(30, 1, ticks=1_000, pages=1_000)
    first = trees.sample([10, 20, 99], 0)
    assert first == {10: Use(0, 13 * PAGE), 20: Use(0, 2 * PAGE)}
    tree.process(11, 10, ticks=10 + TICK, pages=7)
    tree.process(20, 1, ticks=1 + TICK // 2, pages=2)
    second = trees.sample([10, 20], 2_000_000)
    assert (second[10].cpu, second[20].cpu) == (50, 25)


def test_what_a_child_used_is_not_lost_when_it_ends(tree: MachineTree) -> None:
    trees = Trees(str(tree))
    tree.process(10, 1)
    tree.process(11, 10, ticks=TICK)
    trees.sample([10], 0)
    tree.remove("proc/11/stat")
    (tree.root / "proc/11").rmdir()
    tree.process(10, 1, children=2 * TICK)
    assert trees.sample([10], 1_000_000)[10].cpu == 100


def test_a_process_that_another_adopted_stays_with_its_executor(tree: MachineTree) -> None:
    trees = Trees(str(tree))
    tree.process(10, 1, pages=1)
    tree.process(11, 10, pages=2)
    trees.sample([10], 0)
    tree.process(11, 1, pages=2)
    assert trees.sample([10], 1)[10].memory == 3 * PAGE


def test_an_executor_that_comes_later_is_found_with_what_is_below(tree: MachineTree) -> None:
    trees = Trees(str(tree))
    tree.process(10, 1, pages=1)
    tree.process(20, 1, pages=1)
    tree.process(21, 20, pages=4)
    assert set(trees.sample([10], 0)) == {10}
    assert trees.sample([10, 20], 1)[20].memory == 5 * PAGE
    assert set(trees.sample([20], 2)) == {20}
    assert trees.sample([], 3) == {}


def test_the_children_of_a_zygote_are_its_executors(tree: MachineTree) -> None:
    trees = Trees(str(tree))
    tree.process(5, 1, pages=100)
    tree.process(10, 5, pages=1)
    tree.process(11, 10, pages=2)
    assert trees.sample([], 0, parents=[5]) == {10: Use(0, 3 * PAGE)}
    tree.process(12, 5, pages=4)
    tree.process(13, 12, pages=4)
    assert trees.sample([], 1, parents=[5])[12] == Use(0, 8 * PAGE)


def test_the_real_machine_is_read_cheaply() -> None:
    monitor = Monitor("here", SystemClock(), disk="/")
    time.sleep(0.1)
    reading = monitor.poll([os.getpid()])
    assert reading.cpu_raw is not None
    assert 0 <= reading.cpu_raw <= 100 * reading.cores
    assert reading.memory_total
    assert reading.executors
    assert reading.executors[os.getpid()].memory > 1_000_000
    polls = 50
    before = time.process_time()
    for _ in range(polls):
        monitor.poll([os.getpid()])
    monitor.close()
    # Ten milliseconds a second are 1 % of a core; it takes less than one of them.
    assert (time.process_time() - before) / polls < 0.01


def test_a_reading_survives_the_way_through_json(tree: MachineTree) -> None:
    clock = FakeClock()
    tree.process(10, 1, pages=3)
    monitor = Monitor("web-2", clock, root=str(tree), disk=str(tree), cpus=4)
    tree.ticks(50, 50)
    clock.advance(SECOND)
    reading = monitor.poll([10])
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
