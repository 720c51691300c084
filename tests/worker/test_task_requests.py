"""What a job writes on the socket for requests never runs in the supervisor.

The job crafts the bytes itself, as one would that has no respect for our classes.
"""

import shutil
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest
from worker.notes import notes
from worker.place import Handle, Place, until
from worker.tasks import attacks, inside

from limpet import State, Task
from limpet.worker.wire.frames import header

JOB = "01k7h7egouaedbkfnefms35cmt"
NESTED = b"\x92\xa3job" + b"\x91" * 50_000 + b"\x90"


def frame(*request: object) -> bytes:
    return framed(msgspec.msgpack.encode(request))


def framed(body: bytes) -> bytes:
    return header(len(body)) + body


def new_job(**changed: object) -> list[object]:
    fields = {"id": JOB, "task": "add", "args": "{}", "queue": "default", "options": "{}"}
    return list({**fields, **changed}.values())


def pickled_call(module: str, name: str, argument: str) -> bytes:
    """A pickle that calls what has that name, as the pickle machine reads it."""
    texts = [struct.pack("<BB", 0x8C, len(text)) + text.encode() for text in (module, name)]
    said = argument.encode()
    return (
        b"\x80\x04" + b"".join(texts) + b"\x93X" + struct.pack("<I", len(said)) + said + b"\x85R."
    )


CRAFTED = {
    "a pickle": framed(b"\x80\x04\x8c\x04info))\x87."),
    "a verb that is the supervisor's": frame("exchange", "s", 1),
    "a name of Python's": frame("__class__"),
    "a wrong type": frame("cancel", 5),
    "no array": framed(msgspec.msgpack.encode({"verb": "info"})),
    "too many parameters": frame("info", 1, 2),
    "a number beyond all": frame("hold_queue", "default", 1 << 63),
    "no number": frame("hold_queue", "default", float("nan")),
    "too many jobs": frame("requeue", [JOB] * 1_001, "default"),
    "a job without an id": frame("enqueue", [new_job(id="x" * 26)]),
    "a queue that no one could read": frame("enqueue", [new_job(queue="a/b")]),
    "options that no one could read": frame("enqueue", [new_job(options="{")]),
    "a rate of nothing": frame("limit_queue", "default", [None, [0, 0, 0], None]),
    "a schedule without moments": frame(
        "put_schedule",
        {"id": "x", "job": new_job(id=""), "timing": {"cron": "x x x x x"}, "next_at": 1},
    ),
    "nested without end": framed(NESTED),
    "a length that never comes": header(0xFFFFFFF0),
    "a job that it was never given": frame("enqueue", [new_job()], None, False, [JOB, JOB, 1]),
}


def assert_only_it_was_ended(place: Place, job: Handle) -> None:
    found = place.until_state(job, seconds=20)
    assert (found.state, found.result) == (State.SUCCEEDED, '"second"'), place.events(job)
    assert found.counters == (0, 1, 1)
    assert "could not be understood" in str(place.cause(job, "orphaned").cause)


@pytest.mark.parametrize("crafted", CRAFTED)
def test_what_is_no_request_ends_the_executor_that_sent_it(shared: Place, crafted: str) -> None:
    job = attacks.garbles.enqueue(shared.notes, "requests", CRAFTED[crafted].hex())
    assert_only_it_was_ended(shared, job)
    assert shared.store.job(JOB) is None


@pytest.mark.parametrize(
    "task",
    [attacks.garbles, attacks.garbles_async, attacks.garbles_as_another_user],
    ids=["lane", "loop", "another user"],
)
def test_a_job_cannot_have_the_supervisor_run_code(
    shared: Place, task: Task[Any, Any], tmp_path: Path
) -> None:
    """A library that is loaded runs its own code; that it is loaded shows in the memory map."""
    library = shutil.copy(msgspec._core.__file__, tmp_path / "of_the_job.so")
    garbage = framed(pickled_call("limpet.storage.boot", "ctypes.CDLL", str(library))).hex()
    which = () if task is attacks.garbles_as_another_user else ("requests",)
    supervisor = shared.process("limpet-super")
    job = task.enqueue(shared.notes, *which, garbage)

    def tried() -> bool:
        loaded = str(library) in Path(f"/proc/{supervisor}/maps").read_text()
        assert not loaded, "the supervisor has loaded a library of the job's choice"
        return shared.job(job).state in (State.SUCCEEDED, State.FAILED)

    until(tried, said="the job is over")
    assert_only_it_was_ended(shared, job)


def test_a_job_that_reads_no_answers_is_heard_no_more(shared: Place) -> None:
    """Its answers would fill the memory of the supervisor."""
    times = 20_000
    name = "x" * 900
    job = attacks.floods_requests.enqueue(shared.notes, frame("cancel", name).hex(), times)
    # Meanwhile the others are served.
    first, _ = inside.enqueues.enqueue().result(timeout=30)
    assert shared.app.job(first).result(timeout=30) == 3
    (found,) = until(lambda: notes(shared.notes, "flooded"), said="it is held up")
    assert 0 < int(found["text"]) < times
    Path(f"{shared.notes}-over").touch()
    assert shared.until_state(job).counters == (0, 1, 1)
