"""Somebody writes into an executor's way to the supervisor: that executor ends, and no other."""

import os
import signal
from typing import Any

import pytest
from worker.notes import notes
from worker.place import Handle, Place, until
from worker.tasks import attacks, reports, results

from limpet import State, Task
from limpet.worker.wire import frames

_FRAME = bytearray(frames.pack(frames.DoneFrame([])))
GARBAGE = {
    "a line of text": b"a line that somebody meant for another file\n",
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "a frame with a broken body": bytes(_FRAME[:-2]) + b"\xc1\xc1",
}
TASKS: list[Task[Any, Any]] = [attacks.garbles, attacks.garbles_async]


def assert_only_it_was_ended(place: Place, job: Handle) -> None:
    found = place.until_state(job, seconds=10)
    assert (found.state, found.result) == (State.SUCCEEDED, '"second"'), place.events(job)
    # It was alone, and its executor was ended for what it did.
    assert found.counters == (0, 1, 1)
    assert len(notes(place.notes, "begin")) == 2
    assert "could not be understood" in str(place.cause(job, "orphaned").cause)


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("task", TASKS, ids=["lane", "loop"])
def test_whoever_garbles_the_work_socket_loses_only_his_executor(
    shared: Place, task: Task[Any, Any], garbage: str
) -> None:
    before = len(shared.last.log("executor_garbled"))
    job = task.enqueue(shared.notes, "work", GARBAGE[garbage].hex())
    assert_only_it_was_ended(shared, job)
    until(lambda: len(shared.last.log("executor_garbled")) == before + 1, said="one line of it")
    assert results.add.enqueue(1, 2).result(timeout=10) == 3
    assert results.add_async.enqueue(1, 2).result(timeout=10) == 3


@pytest.mark.parametrize("which", ["requests", "notes"])
@pytest.mark.parametrize("task", TASKS, ids=["lane", "loop"])
def test_whoever_garbles_another_way_to_the_supervisor_loses_only_his_executor(
    shared: Place, task: Task[Any, Any], which: str
) -> None:
    job = task.enqueue(shared.notes, which, GARBAGE["a line of text"].hex())
    assert_only_it_was_ended(shared, job)


def test_what_was_said_before_the_garbage_counts_and_what_still_ran_is_lost(place: Place) -> None:
    """The supervisor stands still for a moment, so that it reads both at once."""
    worker = place.worker("--lanes", "1")
    word, over = place.folder / "word", place.folder / "over"
    elsewhere: Handle = reports.tells.enqueue(str(over))
    finished: list[Handle] = [reports.tells_async.enqueue(str(word)) for _ in range(3)]
    running: Handle = reports.tells_async.enqueue(str(over))
    garbage = GARBAGE["a line of text"].hex()
    garbler: Handle = attacks.garbles_async.enqueue(place.notes, "work", garbage, beside=1)
    everyone = [elsewhere, *finished, running, garbler]
    until(lambda: all(place.job(job).begun for job in everyone), said="all have begun")

    supervisor = place.process("limpet-super")
    os.kill(supervisor, signal.SIGSTOP)
    word.touch()
    until(lambda: notes(place.notes, "garbled"), said="the garbage is written")
    os.kill(supervisor, signal.SIGCONT)

    lost = [running, garbler]
    until(lambda: all("orphaned" in place.events(job) for job in lost), said="both are lost")
    over.touch()
    place.until_over(*everyone)
    for job in [*finished, elsewhere]:
        assert place.job(job).state is State.SUCCEEDED
        assert place.job(job).counters == (0, 0, 0), place.events(job)
    for job in lost:
        assert place.job(job).state is State.SUCCEEDED
        # They were two: who did it is not known, so each runs alone the next time.
        assert place.job(job).counters == (0, 1, 0)
        assert "could not be understood" in str(place.cause(job, "orphaned").cause)
    until(lambda: len(worker.log("executor_garbled")) == 1, said="one line of it")
    assert not worker.log("session_over")
