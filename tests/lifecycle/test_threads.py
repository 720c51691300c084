"""A job whose thread goes on when the job was told to stop: it writes nothing after its outcome."""

import pytest
from lifecycle.hostile import (
    forgets_a_thread,
    waits_for_a_pool,
    waits_for_a_pool_in_a_lane,
    waits_for_a_thread,
)
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place, allowance, wall_of
from lifecycle.tasks import steady
from lifecycle.tree import Settings

from limpet.domain.cause import TimedOut
from limpet.domain.state import State

EVERY_STORE = True
pytestmark = pytest.mark.timeout(120)

TASKS = (waits_for_a_thread, waits_for_a_pool, waits_for_a_pool_in_a_lane)
# Between the clocks of the record and of the outcome.
CLOCKS_SECONDS = 0.005
SETTINGS = Settings(lanes=3, grace=0.5)


def assert_silent_after_its_outcome(place: Place, *jobs: Handle) -> None:
    for job in jobs:
        finished = place.job(job).finished_at
        assert finished is not None
        writes = [r.at for r in place.records() if r.job == job.id and r.role == "thread"]
        assert writes
        assert wall_of(max(writes)) <= finished / 1e6 + CLOCKS_SECONDS


@pytest.mark.one_store
def test_a_thread_of_a_cancelled_or_timed_out_job_writes_nothing_after_its_outcome(
    place: Place,
) -> None:
    place.worker(settings=SETTINGS)
    bystander: Handle = steady.enqueue(word="over")
    place.until_begun(bystander)
    cancelled: list[Handle] = [task.enqueue() for task in TASKS]
    until_it_has_begun = 1.5 + allowance()
    timed_out: list[Handle] = [task.using(timeout=until_it_has_begun).enqueue() for task in TASKS]
    place.until_role("thread", *cancelled, *timed_out)
    for job in cancelled:
        job.cancel()
    place.until_final([*cancelled, *timed_out])
    assert [place.job(job).state for job in cancelled] == [State.CANCELLED] * len(TASKS)
    assert [place.job(job).state for job in timed_out] == [State.FAILED] * len(TASKS)
    assert all(isinstance(place.job(job).error, TimedOut) for job in timed_out)
    place.say("over")
    place.until_final([bystander])
    assert_silent_after_its_outcome(place, *cancelled, *timed_out)
    for job in [*cancelled, *timed_out]:
        assert place.job(job).counters[1:] == (0, 0)
    # It shared a loop with threads that could only be ended with their process.
    assert place.job(bystander).state is State.SUCCEEDED
    assert place.job(bystander).counters == (0, 0, 0)
    assert_no_orphans(place)


def test_a_thread_that_a_job_forgot_writes_nothing_after_its_outcome(place: Place) -> None:
    place.worker(settings=SETTINGS)
    job: Handle = forgets_a_thread.enqueue()
    place.until_final([job])
    assert place.job(job).state is State.SUCCEEDED
    assert_silent_after_its_outcome(place, job)
    assert_no_orphans(place)
