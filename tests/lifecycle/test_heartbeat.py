"""Whatever a job does with its process or the machine, the heartbeat of its worker goes on."""

import os
import time

import pytest
from lifecycle.app import app
from lifecycle.heartbeat import Heartbeat
from lifecycle.hostile import blocks_its_loop, holds_the_gil, holds_the_gil_and_the_loop, spins
from lifecycle.modes import BEST, Mode
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place
from lifecycle.processes import niceness
from lifecycle.tasks import steady_sync
from lifecycle.tree import EXECUTORS, Part, Settings

from limpet import Call
from limpet.domain.state import State

pytestmark = pytest.mark.timeout(120)

# A quarter of it is how long the machine itself may stand still in a test.
LEASE = 4.0
THREE_LEASES = 3 * LEASE
RENEW_EVERY_SECONDS = LEASE / 5
LATEST_SECONDS = 0.25


def judge(place: Place, calls: list[Call]) -> None:
    """Two workers, so that a job whose lease lapsed would be begun by the other one."""
    settings = Settings(lease=LEASE, lanes=2)
    workers = [place.begin_worker(settings=settings) for _ in range(2)]
    sessions = [place.session(worker).id for worker in workers]
    with Heartbeat(place.store) as heart:
        jobs: list[Handle] = app.enqueue_many(calls)
        place.until_begun(*jobs)
        place.until_final(jobs, len(jobs) * THREE_LEASES + 20)
    for job in jobs:
        assert place.job(job).state is State.SUCCEEDED
        assert place.job(job).counters == (0, 0, 0)
        (attempt,) = place.attempts(job)
        assert (attempt.last - attempt.first) / 1e9 >= THREE_LEASES
    for session in sessions:
        assert session not in heart.ended
        assert len(heart.beats(session)) > THREE_LEASES / RENEW_EVERY_SECONDS / 2
        assert heart.latest(session, RENEW_EVERY_SECONDS) <= LATEST_SECONDS + heart.stall
    assert_no_orphans(place)


@pytest.mark.modes(BEST, Mode.SPAWN)
def test_jobs_that_let_nobody_else_run_are_begun_once_and_the_heartbeat_is_on_time(
    place: Place,
) -> None:
    """Forked or spawned; who owns them, and in which namespace, changes no turn of a core."""
    calls = [
        holds_the_gil.call(seconds=THREE_LEASES + 0.1),
        spins.call(seconds=THREE_LEASES + 0.1, children=2 * (os.cpu_count() or 1)),
        blocks_its_loop.call(seconds=THREE_LEASES + 0.1),
    ]
    judge(place, calls)


def test_a_loop_whose_gil_is_held_does_not_stop_the_heartbeat(one_place: Place) -> None:
    judge(one_place, [holds_the_gil_and_the_loop.call(seconds=THREE_LEASES + 0.1)])


def test_executors_give_way_to_the_processes_that_keep_the_lease(place: Place) -> None:
    """Each is in a session of its own, and a grouping kernel weighs sessions, not processes."""
    worker = place.worker()
    job: Handle = steady_sync.enqueue(word="over")
    place.until_begun(job)
    for part in Part:
        for each in worker.part(part):
            wanted = 10 if part in EXECUTORS else 0
            # Without privileges the kernel may want to be asked again a moment later.
            give_up = time.monotonic() + 5
            while (found := niceness(each.pid)) not in ((wanted, None), (wanted, wanted)):
                assert time.monotonic() < give_up, f"{each}: {found}"
                time.sleep(0.05)
    place.say("over")
    place.until_final([job])
    assert_no_orphans(place)
