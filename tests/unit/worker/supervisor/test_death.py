"""How a process of the worker died, and what the store is told of it."""

import signal

import pytest

from limpet.domain.cause import (
    Cause,
    Drained,
    ExecutorExited,
    OutOfMemory,
    WorkerFrozen,
    WorkerKilled,
)
from limpet.worker.supervisor import death


@pytest.mark.parametrize(
    ("code", "over", "frozen", "by_kernel", "cause"),
    [
        (0, 0, 0.0, True, None),
        (3, 0, 0.0, False, ExecutorExited(3)),
        (-signal.SIGSEGV, 0, 0.0, True, WorkerKilled(signal.SIGSEGV, "executor")),
        (-signal.SIGKILL, 0, 0.0, False, WorkerKilled(signal.SIGKILL, "executor")),
        (-signal.SIGKILL, 0, 0.0, True, OutOfMemory()),
        (-signal.SIGKILL, 70, 0.0, False, OutOfMemory(used=70, limit=50)),
        (-signal.SIGKILL, 0, 2.5, True, WorkerFrozen(2.5)),
    ],
)
def test_an_executor_that_died_says_of_what(
    code: int, over: int, frozen: float, by_kernel: bool, cause: Cause | None
) -> None:
    assert death.of_executor(code, 50, over, frozen, by_kernel) == cause


@pytest.mark.parametrize(
    ("code", "frozen", "stopping", "cause"),
    [
        (-signal.SIGKILL, 2.4, False, WorkerFrozen(2.4)),
        (-signal.SIGKILL, 0.1, False, WorkerKilled(signal.SIGKILL, "supervisor")),
        (-signal.SIGSEGV, 2.4, False, WorkerKilled(signal.SIGSEGV, "supervisor")),
        (1, 0.1, False, ExecutorExited(1, "supervisor")),
        (-signal.SIGKILL, 2.4, True, Drained()),
    ],
)
def test_a_supervisor_that_its_own_timer_ended_was_frozen(
    code: int, frozen: float, stopping: bool, cause: Cause
) -> None:
    assert death.of_supervisor(code, frozen, 2.5, stopping) == cause


@pytest.mark.parametrize(
    ("code", "number", "words"),
    [(-9, 9, "signal 9"), (3, None, "code 3"), (None, None, "it does not answer")],
)
def test_a_zygote_counts_as_killed_however_it_ended(
    code: int | None, number: int | None, words: str
) -> None:
    killed = WorkerKilled(number, "zygote")
    assert death.of_zygote(code, silent_seconds=2.5) == (
        WorkerFrozen(2.5) if code is None else killed
    )
    assert death.of_zygote_in_words(code) == words
