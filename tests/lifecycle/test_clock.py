"""A server's clock is set by half a minute under running workers: no lease ends early or stays."""

import time
from collections.abc import Iterator

import pytest
from lifecycle.network import LONG, Net, assert_untouched, hide_lock, net
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place, allowance
from lifecycle.recorder import boottime
from lifecycle.tasks import hands_in, steady, steady_sync
from lifecycle.tree import Settings

from limpet.domain.state import State

pytestmark = pytest.mark.timeout(120)

LEASE = 4.0
STEP = 30.0
SETTINGS = Settings(lease=LEASE, drain=20.0)
KINDS = ("redis", "postgres", *(("valkey",) if LONG else ()))


@pytest.fixture(params=KINDS)
def some(request: pytest.FixtureRequest) -> Iterator[Net]:
    with net(str(request.param), request) as made:
        yield made


def for_a_while(seconds: float) -> None:
    """Nothing is to happen; there is no other sign of that than time."""
    time.sleep(seconds)


def jobs_of(place: Place, word: str) -> list[Handle]:
    """One in a lane and one in a loop, both running until the word."""
    jobs: list[Handle] = [steady_sync.enqueue(word=word), steady.enqueue(word=word)]
    place.until_begun(*jobs)
    place.until_known(*jobs)
    return jobs


def assert_recovered_in_time(place: Place, jobs: list[Handle], since: int, limit: float) -> None:
    """Run again once, and begun again within the limit of a moment of BOOTTIME."""
    for job in jobs:
        first, second = place.attempts(job)
        assert first.last < second.first
        assert (second.first - since) / 1e9 <= limit
        assert place.job(job).state is State.SUCCEEDED
        assert place.job(job).counters == (0, 1, 0)


def test_steps_end_no_lease_early_and_let_none_last(some: Net) -> None:
    """Forward first; back when a worker that seems to be on another host is killed."""
    place = some.place
    victim = place.worker(settings=SETTINGS)
    jobs = jobs_of(place, "over")
    other = place.worker(settings=SETTINGS)
    sessions = [place.session(victim).id, place.session(other).id]
    enqueuer: Handle = hands_in.enqueue(word="soon")
    place.until_begun(enqueuer)

    some.clock.set(STEP)
    for_a_while(LEASE * 1.25)
    assert [place.session(victim).id, place.session(other).id] == sessions
    assert all("the store's clock was set" in each.log for each in (victim, other))
    assert all(len(place.attempts(job)) == 1 for job in jobs)
    place.say("soon")
    place.until_final([enqueuer])
    assert_untouched(place, enqueuer)
    place.until(lambda: place.unfinished() == 2, said="all that was handed in is done")

    hide_lock(victim, place)
    victim.kill_tree()
    some.clock.set(0)
    since = boottime()
    place.until_begun(*jobs, times=2, seconds=STEP)
    place.say("over")
    place.until_final(jobs)
    # The lease is cut to one from when the step was seen, and found to be over by the next look.
    assert_recovered_in_time(place, jobs, since, LEASE + 1.0 + 2 * allowance())
    assert place.session(other).id == sessions[1]
    assert_no_orphans(place)
