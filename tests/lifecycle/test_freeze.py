"""SIGSTOP past the lease: the first run is dead before the second starts, the others go on."""

import contextlib
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import pytest
from lifecycle.app import app
from lifecycle.heartbeat import Heartbeat
from lifecycle.modes import BEST, Mode
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place, allowance, wall_of
from lifecycle.processes import alive, look, send, turn_holder
from lifecycle.recorder import boottime
from lifecycle.tasks import quick, steady, steady_sync
from lifecycle.tree import Part, Settings, Worker

from limpet.domain.cause import WorkerFrozen
from limpet.domain.event import EventName
from limpet.domain.state import State

EVERY_STORE = True
pytestmark = pytest.mark.timeout(120)

LEASE = 3.0
RENEW_EVERY_SECONDS = LEASE / 5
FROZEN_SECONDS = LEASE / 4
# While one is frozen in a transaction nobody can renew for a fourth of the lease. A neighbour bears
# 0.55 leases less a second on top of that: 0.65 s of 3 s, which a busy machine may take from
# it; 2.3 s of these, and 4.5 s of the 10 s that workers have unless told otherwise.
LEASE_OF_ALL = 6.0
# The zygote looks four times a second for executors that are stopped.
LOOKS_EVERY_SECONDS = 0.25


@contextmanager
def claims(queue: str) -> Iterator[list[float]]:
    """Hands in a job again and again, and tells how long each took to be finished."""
    took: list[float] = []
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            began = time.monotonic()
            assert quick.using(queue=queue).enqueue(number=7).result(timeout="20s") == 7
            took.append(time.monotonic() - began)
            over.wait(0.05)

    # The first job waits for an executor to start, which is not what is asked here.
    quick.using(queue=queue).enqueue(number=7).result(timeout="20s")
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join(30)
    assert took, "nobody claimed anything"


def begun_pair(place: Place) -> list[Handle]:
    """A job in a lane, with a subprocess, and one in a loop, on the queue of all workers."""
    in_lane: Handle = steady_sync.using(queue="all").enqueue(word="over", child=True)
    in_loop: Handle = steady.using(queue="all").enqueue(word="over")
    place.until_begun(in_lane, in_loop)
    place.until_role("subprocess", in_lane)
    place.until_known(in_lane, in_loop)
    return [in_lane, in_loop]


def pair_of_workers(place: Place, lease: float = LEASE) -> tuple[Worker, Worker, list[Handle]]:
    """Two workers, of which the first runs two jobs and the other serves a queue of its own."""
    first = place.worker(settings=Settings(lease=lease, queues=("all=10", "first=50")))
    jobs = begun_pair(place)
    other = place.worker(settings=Settings(lease=lease, queues=("all=10", "other=10")))
    return first, other, jobs


def freeze(worker: Worker, parts: tuple[Part, ...]) -> list[int]:
    """Stop every process of those kinds, one after the other."""
    pids = [each.pid for part in parts for each in worker.part(part)]
    assert len(pids) >= len(parts)
    for pid in pids:
        send(pid, signal.SIGSTOP)
    return pids


def assert_second_run_only(
    place: Place, jobs: list[Handle], old: str, frozen: float, lease: float = LEASE
) -> None:
    """Ready again in time, run one after the other, and nothing of the old session counted."""
    for job in jobs:
        (loss,) = place.losses(job)
        assert loss.session == old
        # DESIGN section 4: supervisor frozen.
        assert loss.at / 1e6 - frozen <= lease / 4 + 1.0 + allowance(), str(loss.cause)
        first, second = place.attempts(job)
        assert first.last < second.first
        assert wall_of(first.last) <= loss.at / 1e6, "the first run went on after it was given up"
        found = place.job(job)
        assert (found.state, found.result) == (State.SUCCEEDED, str(second.token))
        assert found.session != old
        assert found.counters == (0, 1, 0)
        said = [event for event in place.timeline(job) if event.session == old]
        after = [event for event in said if event.at > loss.at]
        assert all(event.event is EventName.LEASE_LOST for event in after)


@pytest.mark.parametrize(
    "parts",
    [(Part.SUPERVISOR,), (Part.GUARDIAN, Part.SUPERVISOR), tuple(Part)],
    ids=["supervisor", "guardian and supervisor", "whole tree"],
)
def test_a_frozen_worker_is_dead_before_its_jobs_run_again(
    place: Place, parts: tuple[Part, ...]
) -> None:
    first, other, jobs = pair_of_workers(place)
    old, theirs = place.session(first).id, place.session(other).id
    with Heartbeat(place.store) as heart, claims("other") as took:
        frozen = time.time()
        pids = freeze(first, parts)
        place.until_begun(*jobs, times=2)
        assert [pid for pid in pids if alive(pid)] == [], "its kernel timer did not end it"
        # They are past hearing it; a stopped process that were not would speak up now.
        for pid in pids:
            send(pid, signal.SIGCONT)
        until = time.time() + RENEW_EVERY_SECONDS
        place.until(lambda: time.time() > until, said="what thaws has had time to speak")
        place.say("over")
        place.until_final(jobs)
    assert_second_run_only(place, jobs, old, frozen)
    assert theirs not in heart.ended
    assert heart.latest(theirs, RENEW_EVERY_SECONDS) <= allowance()
    assert max(took) <= 1.0 + allowance()
    assert_no_orphans(place)


@pytest.mark.modes(BEST, Mode.NON_ROOT)
def test_a_frozen_executor_is_ended_and_only_its_own_jobs_run_again(place: Place) -> None:
    """One that stands still for a moment is left alone."""
    worker = place.worker(settings=Settings(lease=LEASE, queues=("all=10",)))
    bystander: Handle = steady_sync.using(queue="all").enqueue(word="over")
    place.until_begun(bystander)
    jobs = begun_pair(place)
    old = place.session(worker).id
    pids = [worker.outer(place.attempts(job)[0].pid).pid for job in jobs]
    for pid in pids:
        send(pid, signal.SIGSTOP)
    time.sleep(FROZEN_SECONDS / 3)
    for pid in pids:
        send(pid, signal.SIGCONT)
    time.sleep(FROZEN_SECONDS)
    assert [place.losses(job) for job in jobs] == [[], []]

    frozen = time.time()
    for pid in pids:
        send(pid, signal.SIGSTOP)
    place.until_begun(*jobs, times=2)
    assert [pid for pid in pids if alive(pid)] == []
    place.say("over")
    place.until_final([bystander, *jobs])
    for job in jobs:
        (loss,) = place.losses(job)
        assert isinstance(loss.cause, WorkerFrozen), loss.cause
        assert loss.cause.seconds >= FROZEN_SECONDS
        after = loss.at / 1e6 - frozen
        limit = FROZEN_SECONDS + 2 * LOOKS_EVERY_SECONDS + allowance()
        assert FROZEN_SECONDS <= after <= limit, str(loss.cause)
        first, second = place.attempts(job)
        assert first.last < second.first, "its subprocess went on beside the second run"
        found = place.job(job)
        assert (found.state, found.result) == (State.SUCCEEDED, str(second.token))
        # It was alone in its executor, so this may be its own doing.
        assert found.counters == (0, 1, 1)
        assert f"{job.id} {second.token} WorkerFrozen" in (place.folder / "hooks").read_text()
    assert len(place.attempts(bystander)) == 1
    assert place.job(bystander).counters == (0, 0, 0)
    assert place.session(worker).id == old
    assert_no_orphans(place)


def write_locked(place: Place) -> bool:
    """Whether a transaction that writes is open."""
    with contextlib.closing(apsw.Connection(str(place.folder / "jobs.db"))) as connection:
        connection.set_busy_timeout(0)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return True
        connection.execute("ROLLBACK")
        return False


def freeze_in_a_transaction(place: Place, worker: Worker) -> tuple[int, float]:
    """Stop the supervisor until it is caught with the turn and a transaction open."""
    turn = place.folder / "jobs.db-limpet" / "turn"
    chance = random.Random(1)
    pid = worker.only(Part.SUPERVISOR).pid
    for _ in range(500):
        app.enqueue_many([quick.using(queue="first").call(number=each) for each in range(200)])
        for _ in range(10):
            stopped_at = time.time()
            send(pid, signal.SIGSTOP)
            place.until(lambda: (it := look(pid)) is None or it.stopped, said="it is stopped")
            if turn_holder(turn) == pid and write_locked(place):
                return pid, stopped_at
            send(pid, signal.SIGCONT)
            time.sleep(chance.uniform(0, 0.01))
    raise AssertionError("the supervisor was never caught in a transaction")


# The supervisor and its timer are the same however its executors are made.
@pytest.mark.modes(BEST, Mode.NON_ROOT)
@pytest.mark.of_sqlite
def test_a_supervisor_frozen_in_a_transaction_stops_nobody_else(place: Place) -> None:
    turn = place.folder / "jobs.db-limpet" / "turn"
    first, other, jobs = pair_of_workers(place, LEASE_OF_ALL)
    old, theirs = place.session(first).id, place.session(other).id
    with Heartbeat(place.store) as heart, claims("other") as took:
        pid, frozen = freeze_in_a_transaction(place, first)
        place.until(lambda: turn_holder(turn) != pid, said="its turn is free")
        held = time.time() - frozen
        assert held <= LEASE_OF_ALL / 4 + allowance(), "its kernel timer did not end it in time"
        before = len(took)
        place.until_begun(*jobs, times=2)
        assert not alive(pid), "its kernel timer did not end it"
        send(pid, signal.SIGCONT)
        place.say("over")
        place.until_final(jobs)
        place.until(lambda: len(took) >= before + 3, said="the other worker claims")
    assert_second_run_only(place, jobs, old, frozen, LEASE_OF_ALL)
    assert theirs not in heart.ended
    # Nobody can write while the kernel waits for the frozen one, so renewals are late by that.
    assert heart.latest(theirs, LEASE_OF_ALL / 5) <= held + allowance()
    assert max(took) <= held + 1.0 + allowance()
    place.until(lambda: not place.unfinished(), said="all that was handed in is done")
    assert_no_orphans(place)


@pytest.mark.of_sqlite
def test_an_outage_of_the_store_ends_the_run_before_the_lease_and_charges_nobody(
    one_place: Place,
) -> None:
    place = one_place
    assert place.mode is BEST
    worker = place.worker(settings=Settings(lease=LEASE, queues=("all=10",)))
    jobs = begun_pair(place)
    with place.store_that_answers_nobody():
        renewed = place.session(worker).renewed_at / 1e6
        time.sleep(LEASE + 1)
        since = boottime()
    place.until_begun(*jobs, times=2)
    place.say("over")
    place.until_final(jobs)
    for job in jobs:
        first, second = place.attempts(job)
        assert wall_of(first.last) < renewed + LEASE
        assert second.first > since
        assert place.job(job).counters == (0, 0, 0)
    assert_no_orphans(place)
