"""What the processes of each session use is known, whichever worker of the host they are of."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine_tree import MachineTree

from limpet.gate.measure.trees import SessionTrees, Trees
from limpet.host.marks import MARK, ZYGOTE

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
SECOND = 1_000_000


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    tree = MachineTree(tmp_path)
    tree.machine()
    tree.process(1, 0)
    return tree


def worker(tree: MachineTree, session: str, zygote: int) -> None:
    """A zygote with two executors, of which the first has a subprocess."""
    tree.process(zygote, 1, mark=session, name=ZYGOTE, pages=50, image=zygote)
    for pid in (zygote + 1, zygote + 2):
        tree.process(pid, zygote, mark=session, pages=60, of_files=5, image=zygote)
    tree.process(zygote + 3, zygote + 1, mark=session, pages=30, of_files=10)


def memory(found: Trees) -> dict[tuple[str, int], int]:
    return {(each.session, each.pid): each.memory_bytes // PAGE for each in found.trees}


def own(tree: MachineTree) -> dict[int, int]:
    found = SessionTrees(str(tree)).sample(0)
    return {each.pid: each.own_bytes // PAGE for each in found.trees}


def test_executors_of_all_workers_are_found_with_everything_below_them(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    worker(tree, "s2", 200)
    tree.process(300, 1, ticks=1_000, pages=1_000)
    found = SessionTrees(str(tree)).sample(0)
    assert memory(found) == {("s1", 101): 90, ("s1", 102): 60, ("s2", 201): 90, ("s2", 202): 60}
    assert found.sessions == {"s1", "s2"}


def test_cpu_is_that_since_the_last_look(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    trees = SessionTrees(str(tree))
    trees.sample(0)
    tree.process(102, 100, ticks=TICK, mark="s1", image=100)
    tree.process(103, 101, ticks=TICK // 2, mark="s1")
    found = trees.sample(2 * SECOND)
    assert {each.pid: each.cpu_percent for each in found.trees} == {101: 25, 102: 50}
    assert found.ended == {"s1": 0}


def test_what_an_executor_has_used_is_not_lost_when_it_ends(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    tree.process(102, 100, ticks=5 * TICK, mark="s1", image=100)
    trees = SessionTrees(str(tree))
    trees.sample(0)
    tree.gone(102)
    tree.process(100, 1, mark="s1", name=ZYGOTE, children=6 * TICK, image=100)
    assert trees.sample(SECOND).ended == {"s1": 100}


def test_one_that_began_since_the_last_look_counts_from_its_beginning(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    trees = SessionTrees(str(tree))
    trees.sample(0)
    tree.process(104, 100, ticks=TICK, mark="s1", image=100)
    found = trees.sample(SECOND)
    assert {each.pid: each.cpu_percent for each in found.trees}[104] == 100


def test_process_that_another_adopted_stays_with_its_executor(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    trees = SessionTrees(str(tree))
    for at in range(2):
        trees.sample(at)
    tree.process(103, 100, mark="s1", pages=30)
    assert memory(trees.sample(2)) == {("s1", 101): 90, ("s1", 102): 60}


def test_process_that_hides_its_mark_belongs_to_its_parents_session(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    tree.process(103, 101, pages=30)
    assert memory(SessionTrees(str(tree)).sample(0))["s1", 101] == 90


def test_process_seen_before_it_became_its_program_is_asked_again(tree: MachineTree) -> None:
    """Between fork and exec it shows the environment of its parent, which has no mark."""
    tree.process(100, 1)
    trees = SessionTrees(str(tree))
    assert trees.sample(0).sessions == set()
    worker(tree, "s1", 100)
    trees.sample(1)
    assert trees.sample(2).sessions == {"s1"}
    assert {each.pid for each in trees.sample(3).trees} == {101, 102}


def test_stranger_with_the_id_of_one_that_is_gone_is_no_part_of_its_session(
    tree: MachineTree,
) -> None:
    worker(tree, "s1", 100)
    trees = SessionTrees(str(tree))
    for at in range(2):
        trees.sample(at)
    tree.process(102, 1, pages=500, start=77)
    for at in range(2, 4):
        assert ("s1", 102) not in memory(trees.sample(at))


def test_command_with_a_permit_counts_whole_also_below_a_worker(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    tree.process(110, 102, mark="s1", pages=5)
    tree.process(111, 110, mark="p1", pages=20)
    tree.process(112, 111, mark="p1", pages=7)
    found = memory(SessionTrees(str(tree)).sample(0))
    assert found["p1", 111] == 27
    assert found["s1", 102] == 65


def test_own_memory_is_neither_the_zygotes_nor_cache_of_files(tree: MachineTree) -> None:
    """Else what an app holds from its import on would count as used once for each executor."""
    worker(tree, "s1", 100)
    # Executors: 55 of their own kind, of which 50 may be the zygote's; the subprocess: 20.
    assert own(tree) == {101: 25, 102: 5}


@pytest.mark.parametrize("of_parent", [205, 60, 0], ids=["keeps it", "freed it", "has ended"])
def test_memory_shared_since_a_fork_counts_once_whatever_the_parent_does(
    tree: MachineTree, of_parent: int
) -> None:
    worker(tree, "s1", 100)
    tree.process(102, 100, mark="s1", pages=of_parent, of_files=5, image=100)
    for pid in (110, 111, 112):
        tree.process(pid, 102, mark="s1", pages=205, of_files=5, image=100)
    assert own(tree)[102] == 150


def test_session_that_is_gone_is_forgotten(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    trees = SessionTrees(str(tree))
    trees.sample(0)
    for pid in range(100, 104):
        tree.gone(pid)
    assert trees.sample(1) == ((), frozenset(), {})


@pytest.fixture
def command() -> Iterator["subprocess.Popen[bytes]"]:
    code = "import sys, time\nheld = bytearray(64 << 20)\nprint(1, flush=True)\nsys.stdin.read()"
    environment = {**os.environ, MARK: "session-of-the-test"}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.communicate()


def test_real_process_is_found_by_its_mark_cheaply(command: "subprocess.Popen[bytes]") -> None:
    trees = SessionTrees()
    trees.sample(0)
    found = trees.sample(SECOND)
    (mine,) = (each for each in found.trees if each.session == "session-of-the-test")
    assert mine.pid == command.pid
    assert 64 << 20 < mine.own_bytes < 128 << 20
    looks = 20
    before = time.process_time()
    for at in range(looks):
        trees.sample((2 + at) * SECOND)
    # Ten milliseconds a second are 1 % of a core.
    assert (time.process_time() - before) / looks < 0.01
