"""A move takes schedules along: each tick is fired once, in one of the two places."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from contract.driver import MINUTE, SECOND
from contract.moving import ARRIVING, CLOSED, CLOSING, EMPTYING, MOVE, carry, step

from limpet.domain.errors import StoreMoved
from limpet.domain.job import NewJob
from limpet.domain.rules import Rules
from limpet.domain.schedule import CatchUp, Schedule, Timing
from limpet.maintenance.scheduler import Scheduler
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock


@pytest.fixture
def other(clock: FakeClock) -> Iterator[Store]:
    """The other side of a move."""
    with closing(open_store("sqlite://", clock)) as opened:
        yield opened
        assert opened.invariants() == ()


def put(store: Store, clock: FakeClock) -> None:
    """Schedules of every kind, one of which has ticked and one of which is paused."""
    job = NewJob("", "task", "{}", key="k", rules=Rules(key_limit=3))
    every = Schedule(id="every", job=job, timing=Timing(every=MINUTE), next_at=clock.wall())
    cron = Schedule(
        id="cron",
        job=NewJob("", "other", '{"a": 1}', "night", secrets=("a",)),
        timing=Timing(cron="0 3 * * *", tz="Europe/Berlin", jitter=SECOND),
        next_at=clock.wall() + MINUTE,
        catch_up=CatchUp.NONE,
        overlap=False,
        declared="app:app",
    )
    for schedule in (every, cron):
        store.put_schedule(schedule)
    Scheduler(store, clock).run()
    store.pause_schedule("cron")
    fired = store.schedule("every")
    assert fired is not None
    assert fired.fired == 1


def test_schedules_arrive_as_they_were(store: Store, other: Store, clock: FakeClock) -> None:
    put(other, clock)
    carry(other, store)
    assert store.schedules() == other.schedules()
    assert store.manifest() == other.manifest()


def test_schedules_leave_as_they_were(store: Store, other: Store, clock: FakeClock) -> None:
    put(store, clock)
    carry(store, other)
    assert other.schedules() == store.schedules()
    assert store.manifest() == other.manifest()


def test_what_has_arrived_ticks_on(store: Store, other: Store, clock: FakeClock) -> None:
    put(other, clock)
    step(other, None, CLOSING, CLOSED)
    carry(other, store)
    clock.advance(timedelta(minutes=1))
    Scheduler(store, clock).run()
    with pytest.raises(StoreMoved):
        Scheduler(other, clock).run()
    now, before = store.schedule("every"), other.schedule("every")
    assert now is not None
    assert before is not None
    assert (now.fired, before.fired) == (2, 1)
    # As it was said: nothing changes where it is put again.
    assert not store.put_schedule(before)


def test_a_store_that_closes_fires_nothing_more(store: Store, clock: FakeClock) -> None:
    put(store, clock)
    before = store.schedules()
    step(store, None, CLOSING)
    clock.advance(timedelta(minutes=1))
    with pytest.raises(StoreMoved):
        Scheduler(store, clock).run()
    assert store.schedules() == before


def test_schedules_that_have_arrived_are_discarded(
    store: Store, other: Store, clock: FakeClock
) -> None:
    put(other, clock)
    step(store, None, ARRIVING)
    store.furnish(MOVE, other.manifest())
    assert len(store.schedules()) == 2
    step(store, ARRIVING, EMPTYING)
    while store.discard(MOVE):
        pass
    step(store, EMPTYING, None)
    assert store.schedules() == ()
    assert store.due_schedules(2**52) == ((), None)
