"""What a program with a permit uses is known from the process that has its lock."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.gate.measure.callers import Callers
from limpet.gate.measure.trees import SessionTrees
from limpet.host import locks
from limpet.host.run_directory import run_directory

SECOND = 1_000_000
MEBIBYTE = 1 << 20
PROGRAM = """
import sys
from limpet.host import locks
for session in sys.argv[1:]:
    locks.take(session)
print(flush=True)
for line in sys.stdin:
    held = bytearray(64 << 20)
    for number in range(10_000_000):
        pass
    print(flush=True)
"""


class Program:
    """A process that has the locks of these sessions, and can be told to take time and memory."""

    def __init__(self, *sessions: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *sessions],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self._hear()

    def use(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        self._hear()

    def _hear(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture
def sessions() -> list[str]:
    return IdSource(SystemClock()).many(2)


@pytest.fixture
def program(sessions: list[str]) -> Iterator[Program]:
    found = Program(*sessions)
    yield found
    found.end()
    for session in sessions:
        locks.forget(session, os.path.join(run_directory(), session + ".lock"))


def test_owner_of_a_lock_is_found_while_it_lives(program: Program, sessions: list[str]) -> None:
    asked = [*sessions, "nobody"]
    assert locks.owners(asked) == dict.fromkeys(sessions, program.pid)
    program.end()
    assert locks.owners(asked) == {}


def test_use_is_shared_by_the_permits_of_one_program(program: Program, sessions: list[str]) -> None:
    trees = SessionTrees()
    callers = Callers(trees)
    trees.sample(0)
    first = callers.sample(sessions, 0)
    assert [(use.cpu, use.memory) for use in first.values()] == [(0, 0), (0, 0)]
    program.use()
    trees.sample(SECOND)
    one, two = callers.sample(sessions, SECOND).values()
    assert one == two
    assert one.cpu > 1
    assert 30 * MEBIBYTE < one.memory < 40 * MEBIBYTE


def test_use_before_the_permit_was_seen_is_not_its_own(
    program: Program, sessions: list[str]
) -> None:
    program.use()
    trees = SessionTrees()
    callers = Callers(trees)
    for at in range(2):
        trees.sample(at * SECOND)
        (use,) = callers.sample(sessions[:1], at * SECOND).values()
    assert use.cpu < 50
    assert use.memory < MEBIBYTE
