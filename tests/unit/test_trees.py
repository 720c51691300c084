"""What the processes of each session use is known, whichever worker of the host they are of."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine_tree import MachineTree

from limpet.domain.reading import Executor, Use
from limpet.host.marks import MARK, ZYGOTE
from limpet.host.trees import SessionTrees

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


def test_executors_of_all_workers_are_found_with_everything_below_them(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    worker(tree, "s2", 200)
    tree.process(300, 1, ticks=1_000, pages=1_000)
    found = SessionTrees(str(tree)).sample(0)
    assert set(found.executors) == {
        Executor("s1", 101, 0, 90 * PAGE),
        Executor("s1", 102, 0, 60 * PAGE),
        Executor("s2", 201, 0, 90 * PAGE),
        Executor("s2", 202, 0, 60 * PAGE),
    }


def test_cpu_is_that_since_the_last_look(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    trees = SessionTrees(str(tree))
    trees.sample(0)
    tree.process(102, 100, ticks=TICK, mark="s1", image=100)
    tree.process(103, 101, ticks=TICK // 2, mark="s1")
    found = trees.sample(2 * SECOND)
    assert {each.pid: each.cpu for each in found.executors} == {101: 25, 102: 50}
    assert found.sessions["s1"].cpu == 75


def test_what_an_executor_has_used_is_not_lost_when_it_ends(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    tree.process(102, 100, ticks=5 * TICK, mark="s1", image=100)
    trees = SessionTrees(str(tree))
    trees.sample(0)
    tree.gone(102)
    tree.process(100, 1, mark="s1", name=ZYGOTE, children=6 * TICK, image=100)
    assert trees.sample(SECOND).sessions["s1"].cpu == 100


def test_one_that_began_since_the_last_look_counts_from_its_beginning(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    trees = SessionTrees(str(tree))
    trees.sample(0)
    tree.process(104, 100, ticks=TICK, mark="s1", image=100)
    found = trees.sample(SECOND)
    assert found.sessions["s1"].cpu == 100
    assert {each.pid: each.cpu for each in found.executors}[104] == 100


def test_process_that_another_adopted_stays_with_its_executor(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    trees = SessionTrees(str(tree))
    for at in range(2):
        trees.sample(at)
    tree.process(103, 100, mark="s1", pages=30)
    found = {each.pid: each.memory for each in trees.sample(2).executors}
    assert found == {101: 90 * PAGE, 102: 60 * PAGE}


def test_process_that_hides_its_mark_belongs_to_its_parents_session(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    tree.process(103, 101, pages=30)
    assert {each.pid: each.memory for each in SessionTrees(str(tree)).sample(0).executors}[
        101
    ] == 90 * PAGE


def test_process_seen_before_it_became_its_program_is_asked_again(tree: MachineTree) -> None:
    """Between fork and exec it shows the environment of its parent, which has no mark."""
    tree.process(100, 1)
    trees = SessionTrees(str(tree))
    assert trees.sample(0).sessions == {}
    worker(tree, "s1", 100)
    trees.sample(1)
    assert set(trees.sample(2).sessions) == {"s1"}
    assert {each.pid for each in trees.sample(3).executors} == {101, 102}


def test_command_with_a_permit_counts_whole_also_below_a_worker(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    tree.process(110, 102, mark="s1", pages=5)
    tree.process(111, 110, mark="p1", pages=20)
    tree.process(112, 111, mark="p1", pages=7)
    found = SessionTrees(str(tree)).sample(0)
    by_pid = {each.pid: (each.session, each.memory) for each in found.executors}
    assert by_pid[111] == ("p1", 27 * PAGE)
    assert by_pid[102] == ("s1", 65 * PAGE)
    assert found.sessions["p1"].memory == 27 * PAGE


def test_own_memory_is_neither_shared_since_a_fork_nor_cache_of_files(tree: MachineTree) -> None:
    """Else what an app holds from its import on would count as used once for each executor."""
    worker(tree, "s1", 100)
    # Executors: 55 of their own kind, of which 50 may be the zygote's; the subprocess: 20.
    assert SessionTrees(str(tree)).sample(0).sessions["s1"] == Use(0, (5 + 5 + 20) * PAGE)
    # One that was forked by a job, and shares what that had.
    tree.process(105, 102, mark="s1", pages=65, of_files=5, image=100)
    assert SessionTrees(str(tree)).sample(0).sessions["s1"].memory == (5 + 5 + 20 + 5) * PAGE


def test_session_that_is_gone_is_forgotten(tree: MachineTree) -> None:
    worker(tree, "s1", 100)
    trees = SessionTrees(str(tree))
    trees.sample(0)
    for pid in range(100, 104):
        tree.gone(pid)
    assert trees.sample(1) == ((), {})


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
    assert [each.pid for each in found.executors if each.session == "session-of-the-test"] == [
        command.pid
    ]
    assert 64 << 20 < found.sessions["session-of-the-test"].memory < 128 << 20
    looks = 20
    before = time.process_time()
    for at in range(looks):
        trees.sample((2 + at) * SECOND)
    # Ten milliseconds a second are 1 % of a core.
    assert (time.process_time() - before) / looks < 0.01
