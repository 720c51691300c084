"""A job that writes well-formed nonsense on its executor's socket ends that executor, and no other.

The session goes on, the job pays by the rules of strikes, and whoever ran elsewhere pays nothing.
"""

from pathlib import Path

import pytest
from worker import forgeries
from worker.notes import notes
from worker.place import PATIENCE_SECONDS, Handle, Place, until
from worker.tasks import attacks, reports, results

from limpet import State
from limpet.host import processes

FORGERIES = [
    *(("work", name) for name in forgeries.WORK),
    *(("notes", name) for name in forgeries.NOTES),
]


def test_no_forged_frame_ends_the_session_and_each_is_charged_to_its_job(
    place: Place, tmp_path: Path
) -> None:
    worker = place.worker("--lanes", "4", "--grace", "1s")
    over = tmp_path / "over"
    innocents: list[Handle] = [reports.tells_async.enqueue(str(over)) for _ in range(3)]
    until(lambda: all(place.job(job).begun for job in innocents), said="the innocents run")
    jobs: dict[str, Handle] = {}
    for number, (which, name) in enumerate(FORGERIES):
        jobs[name] = attacks.forges.enqueue(str(tmp_path / f"notes-{number}"), which, name)
    place.until_over(*jobs.values(), seconds=60)
    over.touch()
    place.until_over(*innocents)
    wrong = {
        name: (place.job(job).counters, place.events(job))
        for name, job in jobs.items()
        if place.job(job).counters != (0, 1, 1) or place.job(job).state is not State.SUCCEEDED
    }
    assert not wrong
    for job in jobs.values():
        assert "could not be understood" in str(place.cause(job, "orphaned").cause)
    assert {place.job(job).counters for job in innocents} == {(0, 0, 0)}
    assert len(worker.log("worker_ready")) == 1
    assert not worker.log("session_over")
    assert len(worker.log("executor_garbled")) == len(FORGERIES)


def test_a_job_that_forges_again_and_again_is_poison(place: Place) -> None:
    worker = place.worker("--lanes", "1")
    before: Handle = results.add.enqueue(1, 1)
    assert before.result(timeout=PATIENCE_SECONDS) == 2
    job: Handle = attacks.forges.enqueue(place.notes, "work", "a kind alone", times=9)
    found = place.until_state(job, State.FAILED)
    assert found.counters == (0, 3, 3)
    assert len(notes(place.notes, "begin")) == 3
    assert "3 times" in str(found.error)
    causes = [str(each.cause) for each in place.timeline(job) if each.event == "orphaned"]
    assert len(causes) == 3
    assert all("could not be understood" in each for each in causes)
    after: Handle = results.add.enqueue(2, 2)
    assert after.result(timeout=PATIENCE_SECONDS) == 4
    assert place.job(after).session == place.job(before).session, "the worker began anew"
    assert not worker.log("session_over")


def test_a_flood_of_reports_starves_nobody_and_takes_no_memory(place: Place) -> None:
    worker = place.worker("--lanes", "3", "--lease", "4s")
    assert results.add.enqueue(1, 1).result(timeout=PATIENCE_SECONDS) == 2
    supervisor = place.process("limpet-super")
    before = processes.resident_bytes(supervisor)
    flooding: list[Handle] = [attacks.floods.enqueue(f"{place.notes}-{n}", 2.0) for n in range(2)]
    until(lambda: all(notes(f"{place.notes}-{n}", "begin") for n in range(2)), said="a flood")
    beside: list[Handle] = [results.add.enqueue(n, 1) for n in range(20)]
    beside += [results.add_async.enqueue(n, 1) for n in range(20)]
    place.until_over(*beside)
    found = place.until_over(*flooding)
    assert {job.state for job in found} == {State.SUCCEEDED}
    assert processes.resident_bytes(supervisor) - before < 100_000_000
    assert all(len(place.log(job)) <= 1_000 for job in flooding)
    assert {place.job(job).counters for job in (*flooding, *beside)} == {(0, 0, 0)}
    assert not worker.log("session_over")


@pytest.mark.parametrize("which", ["start_tokens", "work"])
def test_a_job_that_reads_what_is_meant_for_its_lane_does_not_stall_it(
    place: Place, which: str
) -> None:
    worker = place.worker("--lanes", "1")
    many: list[Handle] = [results.add.enqueue(n, 1) for n in range(200)]
    place.until_over(*many)  # so fast that the next are claimed ahead
    stealing: Handle = attacks.reads_what_is_meant_for_its_lane.enqueue(place.notes, which)
    behind: list[Handle] = [results.add.enqueue(n, 1) for n in range(50)]
    found = place.until_over(stealing, *behind, seconds=60)
    assert {job.state for job in found} == {State.SUCCEEDED}
    assert all(place.job(job).counters.strikes <= 1 for job in behind)
    assert not worker.log("session_over")


SPOILS_THE_ZYGOTE = """
import gc, struct
import msgspec
from limpet import App
from limpet.worker.wire.frames import Channel

app = App("sqlite:///jobs.db")

@app.task
def work() -> None: ...

(channel,) = (each for each in gc.get_objects() if isinstance(each, Channel))
body = msgspec.msgpack.encode({body})
channel.sock.sendall(struct.pack("<II", len(body), len(body) ^ 0xFFFFFFFF) + body)
"""


@pytest.mark.parametrize("body", ["[31, [5]]", "[30, 1]"])
def test_an_app_that_garbles_its_zygote_is_refused_with_a_sentence(place: Place, body: str) -> None:
    target = place.module(SPOILS_THE_ZYGOTE.replace("{body}", body))
    worker = place.begin_worker(target=target)
    assert worker.wait() == 2
    (refused,) = worker.log("refused")
    assert refused["message"].startswith("importing own:app spoilt the process (it sent what")
    assert "Traceback" not in worker.text
