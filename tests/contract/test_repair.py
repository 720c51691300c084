"""repair: a quarantined job is ready again, with arguments that fit."""

from contextlib import closing
from datetime import timedelta

import pytest
from contract.driver import (
    BOOM,
    SECOND,
    Holder,
    add,
    get,
    history,
    new_id,
    state,
    states,
    told,
    total,
)
from contract.families import flow

from limpet.domain.errors import JobNotFound, MoveRefused
from limpet.domain.event import EventName
from limpet.domain.job import Counters
from limpet.domain.state import State
from limpet.domain.transition import Complete, Quarantine, RetryAt
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock


@pytest.fixture
def quarantined(store: Store, holder: Holder, clock: FakeClock) -> str:
    """A job that failed once, and then turned out not to fit its task."""
    job = add(store, args='{"old": 1, "pin": 2}', secrets=("pin",))
    holder.settle(RetryAt(holder.take(), clock.wall(), BOOM))
    store.promote()
    holder.settle(Quarantine(holder.take(), BOOM))
    assert state(store, job) is State.QUARANTINED
    return job


def test_repaired_job_runs_with_its_new_arguments(
    store: Store, holder: Holder, quarantined: str, clock: FakeClock
) -> None:
    clock.advance(timedelta(seconds=1))
    assert store.repair(quarantined, '{"new": "ü", "key": 3}', 7, ("key", "new")) is State.READY
    kept = get(store, quarantined)
    assert (kept.state, kept.args, kept.payload_version) == (
        State.READY,
        '{"new": "ü", "key": 3}',
        7,
    )
    assert (kept.secrets, kept.error) == (("key", "new"), None)
    assert (kept.counters, kept.round, kept.finished_at) == (Counters(failures=1), 1, None)
    event = history(store, quarantined)[-1]
    assert (event.event, event.at) == (EventName.REPAIRED, clock.wall())
    assert total(store, "repair") == 1
    (claimed,) = holder.claim()
    assert (claimed.lease.job, claimed.lease.token, claimed.args) == (quarantined, 3, kept.args)
    assert (claimed.payload_version, claimed.secrets) == (7, ("key", "new"))
    assert claimed.counters == Counters(failures=1)
    assert holder.settle(Complete(claimed.lease)) == ()


def test_repaired_job_can_be_quarantined_and_repaired_again(
    store: Store, holder: Holder, quarantined: str
) -> None:
    store.repair(quarantined, "{}", 2, ())
    holder.settle(Quarantine(holder.take(), BOOM))
    assert store.repair(quarantined, "[]", 3, ()) is State.READY
    assert get(store, quarantined).args == "[]"
    assert told(store, quarantined).count(EventName.REPAIRED) == 2


def test_bell_rings_for_a_repaired_job(store: Store, quarantined: str) -> None:
    with closing(store.listen(Topic.READY)) as bell:
        bell.wait(timedelta(0))
        store.repair(quarantined, "{}", 1, ())
        assert bell.wait(timedelta(seconds=10))


def test_job_in_another_state_is_refused_and_left_as_it_is(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    done, running, ready = add(store), add(store), add(store)
    holder.settle(Complete(holder.take()))
    holder.take()
    later = add(store, scheduled_for=clock.wall() + SECOND)
    gone = add(store)
    store.cancel(gone)
    for job in (done, running, ready, later, gone):
        before = get(store, job), store.events(job)
        with pytest.raises(MoveRefused):
            store.repair(job, '{"x": 1}', 9, ())
        assert (get(store, job), store.events(job)) == before


def test_repeat_is_refused(store: Store, quarantined: str) -> None:
    store.repair(quarantined, "{}", 1, ())
    with pytest.raises(MoveRefused):
        store.repair(quarantined, "{}", 1, ())


def test_unknown_job_is_refused(store: Store) -> None:
    with pytest.raises(JobNotFound):
        store.repair(new_id(), "{}", 1, ())


def test_quarantined_child_that_is_repaired_counts_when_it_is_done(
    store: Store, holder: Holder
) -> None:
    top, (only,) = flow(store, 1)
    holder.settle(Quarantine(holder.take(), BOOM))
    store.repair(only, "{}", 1, ())
    assert get(store, top).pending == 1
    holder.settle(Complete(holder.take()))
    assert states(store, [top, only]) == [State.READY, State.SUCCEEDED]
