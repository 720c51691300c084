"""Whose doing the death of an executor is."""

import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest

from limpet.domain.cause import Cause, ExecutorExited, OutOfMemory, WorkerKilled
from limpet.worker.supervisor.charges import Charges
from limpet.worker.wire.page import now

KILLED = WorkerKilled(signal.SIGKILL, "executor")
FAULTED = WorkerKilled(signal.SIGSEGV, "executor")
OWN: tuple[Cause, ...] = (FAULTED, ExecutorExited(3), OutOfMemory())


def executor(number: int, *jobs: str, died_with: int = 0) -> Any:
    given = now()
    holds = {job: SimpleNamespace(lease=SimpleNamespace(job=job), given_at=given) for job in jobs}
    return SimpleNamespace(kind="lane", number=number, holds=holds, died_with=died_with)


def begun(executor: Any) -> list[Any]:
    return list(executor.holds.values())


def charges(*executors: Any) -> Charges:
    stub: Any = SimpleNamespace(by_number={each.number: each for each in executors})
    return Charges(stub)


@pytest.mark.parametrize("cause", [KILLED, *OWN], ids=str)
def test_what_dies_where_nothing_else_ran_has_ended_itself(cause: Cause) -> None:
    victim = executor(1, "a", died_with=1)
    assert charges(executor(2)).is_own_doing(victim, cause, begun(victim))


@pytest.mark.parametrize("cause", OWN, ids=str)
def test_a_fault_is_its_own_doing_in_company_too(cause: Cause) -> None:
    victim = executor(1, "a")
    assert charges(executor(2, "b")).is_own_doing(victim, cause, begun(victim))


def test_a_signal_that_no_fault_raises_may_have_come_from_any_job_beside_it() -> None:
    victim = executor(1, "a", died_with=1)
    assert not charges(executor(2, "b")).is_own_doing(victim, KILLED, begun(victim))


def test_a_job_that_has_ended_a_moment_ago_is_company() -> None:
    victim, other = executor(1, "a", died_with=1), executor(2)
    there = charges(other)
    there.worked(other)
    assert not there.is_own_doing(victim, KILLED, begun(victim))


def test_a_job_that_had_ended_before_the_victim_was_given_out_is_no_company() -> None:
    other = executor(2)
    there = charges(other)
    there.worked(other)
    time.sleep(0.001)
    victim = executor(1, "a", died_with=1)
    assert there.is_own_doing(victim, KILLED, begun(victim))


def test_an_earlier_attempt_of_the_same_job_is_no_company() -> None:
    there = charges()
    for number in range(3):
        victim = executor(number, "a", died_with=1)
        assert there.is_own_doing(victim, KILLED, begun(victim))


@pytest.mark.parametrize("cause", [KILLED, FAULTED], ids=str)
def test_whoever_died_together_with_others_did_not_do_it(cause: Cause) -> None:
    victim = executor(1, "a", died_with=2)
    assert not charges().is_own_doing(victim, cause, begun(victim))


def test_of_several_jobs_in_one_executor_none_is_known_to_have_done_it() -> None:
    victim = executor(1, "a", "b")
    assert not charges().is_own_doing(victim, FAULTED, begun(victim))
