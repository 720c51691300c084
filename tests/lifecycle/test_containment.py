"""A job whose subprocess double-forks a daemon: nothing of it is alive when the attempt is over."""

import signal
import time

import pytest
from lifecycle.base import Daemon, once
from lifecycle.hostile import leaves_a_daemon_and_fails
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place, allowance, wall_of
from lifecycle.processes import send
from lifecycle.tasks import steady_sync
from lifecycle.tree import Part, Settings

from limpet.domain.cause import TimedOut
from limpet.domain.state import FINAL, State

EVERY_MODE = True
pytestmark = pytest.mark.timeout(120)

DAEMONS: tuple[Daemon, ...] = ("marked", "bare")
SETTINGS = Settings(lanes=9, grace=0.5)
# Between the clocks of the record and of the outcome.
CLOCKS_SECONDS = 0.005


def assert_nothing_alive_when_final(place: Place, jobs: list[Handle]) -> None:
    """Look at the processes of each job at the very moment at which it is seen to be final."""
    left = list(jobs)
    give_up = time.monotonic() + 40
    while left:
        assert time.monotonic() < give_up, [place.job(job) for job in left]
        for job in list(left):
            if place.job(job).state in FINAL:
                assert place.carriers(job) == []
                left.remove(job)
        time.sleep(0.001)
    for job in jobs:
        finished = place.job(job).finished_at
        assert finished is not None
        last = max(record.at for record in place.records() if record.job == job.id)
        assert wall_of(last) <= finished / 1e6 + CLOCKS_SECONDS


def test_no_daemon_outlives_success_failure_cancellation_or_timeout(place: Place) -> None:
    place.worker(settings=SETTINGS)
    bystander: Handle = steady_sync.enqueue(word="over", child=True)
    place.until_begun(bystander)
    succeeding: list[Handle] = [steady_sync.enqueue(seconds=0.3, daemon=how) for how in DAEMONS]
    failing: list[Handle] = [leaves_a_daemon_and_fails.enqueue(daemon=how) for how in DAEMONS]
    cancelled: list[Handle] = [steady_sync.enqueue(daemon=how) for how in DAEMONS]
    until_it_has_begun = 2 + 2 * allowance()
    timed_out: list[Handle] = [
        steady_sync.using(timeout=until_it_has_begun, retry=once).enqueue(daemon=how)
        for how in DAEMONS
    ]
    everyone = [*succeeding, *failing, *cancelled, *timed_out]
    place.until_role("daemon", *cancelled)
    for job in cancelled:
        job.cancel()
    assert_nothing_alive_when_final(place, everyone)
    states = [place.job(job).state for job in everyone]
    ends = (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.FAILED)
    assert states == [state for state in ends for _ in DAEMONS]
    assert all(isinstance(place.job(job).error, TimedOut) for job in timed_out)
    for job in everyone:
        assert len(place.attempts(job)) == 1
        assert any(r.role == "daemon" for r in place.records() if r.job == job.id)
        assert place.job(job).counters.orphans == 0
    # To end one lane's daemons is no reason to touch another's.
    assert place.carriers(bystander) != []
    place.say("over")
    place.until_final([bystander])
    assert place.job(bystander).counters == (0, 0, 0)
    assert_no_orphans(place)


def begun_with_daemons(place: Place, word: str, daemons: tuple[Daemon, ...]) -> list[Handle]:
    jobs: list[Handle] = [steady_sync.enqueue(word=word, daemon=how) for how in daemons]
    place.until_role("daemon", *jobs)
    place.until_known(*jobs)
    return jobs


def assert_gone_before_the_second_run(place: Place, jobs: list[Handle]) -> None:
    for job in jobs:
        (loss,) = place.losses(job)
        first, second = place.attempts(job)
        assert first.last < second.first
        assert wall_of(first.last) <= loss.at / 1e6 + CLOCKS_SECONDS
        assert place.job(job).counters == (0, 1, 0)
        assert place.carriers(job) == []


def test_no_daemon_outlives_a_killed_supervisor_guardian_or_tree(place: Place) -> None:
    worker = place.worker(settings=SETTINGS)
    jobs = begun_with_daemons(place, "first", DAEMONS)
    send(worker.only(Part.SUPERVISOR).pid, signal.SIGKILL)
    place.until_role("daemon", *jobs, times=2)
    place.say("first")
    place.until_final(jobs)
    assert_gone_before_the_second_run(place, jobs)

    jobs = begun_with_daemons(place, "second", DAEMONS)
    neighbour = place.worker(settings=SETTINGS)
    send(worker.pid, signal.SIGKILL)
    place.until_role("daemon", *jobs, times=2)
    place.say("second")
    place.until_final(jobs)
    assert_gone_before_the_second_run(place, jobs)

    # A daemon without an environment, the whole tree killed at once, nothing that is airtight:
    # the limit that docs/concepts/guarantees says aloud.
    jobs = begun_with_daemons(place, "third", DAEMONS if place.mode.airtight else ("marked",))
    place.worker(settings=SETTINGS)
    neighbour.kill_tree()
    place.until_role("daemon", *jobs, times=2)
    place.say("third")
    place.until_final(jobs)
    assert_gone_before_the_second_run(place, jobs)
    assert_no_orphans(place)
