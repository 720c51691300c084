"""Whatever a job does with its process or the machine, the heartbeat of its worker goes on."""

import os

import pytest
from lifecycle.app import blocks_its_loop, holds_the_gil, holds_the_gil_and_the_loop, spins
from lifecycle.heartbeat import Heartbeat
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place
from lifecycle.tree import Settings

from limpet.domain.state import State

pytestmark = pytest.mark.timeout(120)

LEASE = 2.0
THREE_LEASES = 3 * LEASE
RENEW_EVERY_SECONDS = LEASE / 5
LATEST_SECONDS = 0.25


def judge(place: Place, jobs: list[Handle]) -> None:
    """Two workers, so that a job whose lease lapsed would be begun by the other one."""
    workers = [place.worker(settings=Settings(lease=LEASE, lanes=2)) for _ in range(2)]
    sessions = [place.session(worker).id for worker in workers]
    with Heartbeat(place.store) as heart:
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
        assert heart.latest(session, RENEW_EVERY_SECONDS) <= LATEST_SECONDS
    assert_no_orphans(place)


def test_jobs_that_let_nobody_else_run_are_begun_once_and_the_heartbeat_is_on_time(
    place: Place,
) -> None:
    jobs: list[Handle] = [
        holds_the_gil.enqueue(seconds=THREE_LEASES + 0.1),
        spins.enqueue(seconds=THREE_LEASES + 0.1, children=2 * (os.cpu_count() or 1)),
        blocks_its_loop.enqueue(seconds=THREE_LEASES + 0.1),
    ]
    judge(place, jobs)


def test_a_loop_whose_gil_is_held_does_not_stop_the_heartbeat(one_place: Place) -> None:
    judge(one_place, [holds_the_gil_and_the_loop.enqueue(seconds=THREE_LEASES + 0.1)])
