"""Schedules with real workers: each tick is one job, whoever of them is alive."""

import pytest
from lifecycle.app import app
from lifecycle.modes import BEST
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import PATIENCE_SECONDS, Place
from lifecycle.tasks import quick

from limpet.domain.job import JobFilter
from limpet.domain.schedule import Schedule
from limpet.domain.state import FINAL, State

EVERY_STORE = True
pytestmark = pytest.mark.timeout(120)

SECOND = 1_000_000
TICKS = 6


def fired(place: Place) -> int:
    schedule = place.store.schedule("ticking")
    assert schedule is not None
    return schedule.fired


@pytest.mark.modes(BEST)
def test_each_tick_is_one_job_whichever_worker_is_killed(place: Place) -> None:
    put: Schedule = app.schedules.upsert("ticking", quick.call(), every="1s", catch_up="all")
    workers = [place.worker(), place.worker()]
    place.until(lambda: fired(place) >= 2, PATIENCE_SECONDS, "two ticks are fired")
    workers[0].kill_tree()
    before = fired(place)
    place.until(lambda: fired(place) >= before + 2, PATIENCE_SECONDS, "the other one goes on")
    place.worker()
    place.until(lambda: fired(place) >= TICKS, PATIENCE_SECONDS, "more ticks are fired")
    app.schedules.pause("ticking")
    now = place.store.schedule("ticking")
    assert now is not None
    ticks = range(put.next_at, now.next_at, SECOND)
    expected = {put.job_of(tick).id for tick in ticks}
    found = {job.id: job for job in place.store.jobs(JobFilter(task="quick"), limit=1000).jobs}
    assert set(found) == expected
    assert (now.fired, now.passed) == (len(expected), 0)

    def finished() -> bool:
        states = place.store.states(list(expected)).values()
        return all(state in FINAL for state in states)

    place.until(finished, PATIENCE_SECONDS, "all are finished")
    assert set(place.store.states(list(expected)).values()) == {State.SUCCEEDED}
    assert_no_orphans(place)
