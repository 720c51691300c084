"""retry: a finished job → ready in a new round of the same id."""

from datetime import timedelta

import pytest
from contract.driver import (
    BOOM,
    HOOK,
    KILLED,
    MINUTE,
    SECOND,
    Holder,
    add,
    get,
    history,
    new_id,
    told,
)

from limpet.domain.errors import JobNotFound, MoveRefused
from limpet.domain.event import EventName
from limpet.domain.job import Counters
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, Orphan, Quarantine
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock


def test_failed_job_starts_a_new_round_with_clean_counters(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    holder.settle(Orphan(holder.take(), KILLED, begun=True, alone=False))
    holder.settle(Fail(holder.take(suspects=1), BOOM))
    clock.advance(timedelta(seconds=1))
    assert store.retry(job, 1) == 2
    kept = get(store, job)
    assert (kept.state, kept.round, kept.counters) == (State.READY, 2, Counters())
    assert (kept.error, kept.finished_at, kept.suspect) == (None, None, False)
    assert kept.ready_at == clock.wall()


def test_succeeded_job_can_run_again_and_its_success_stays_told(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    holder.settle(Complete(holder.take(), "1"))
    store.retry(job, 1)
    assert get(store, job).result is None
    assert told(store, job) == [
        EventName.ENQUEUED,
        EventName.CLAIMED,
        EventName.SUCCEEDED,
        EventName.REOPENED,
    ]
    holder.settle(Complete(holder.take(), "2"))
    assert (get(store, job).state, get(store, job).result) == (State.SUCCEEDED, "2")
    assert told(store, job)[4:] == [EventName.CLAIMED, EventName.SUCCEEDED]


def test_cancelled_job_can_run_again(store: Store) -> None:
    job = add(store)
    store.cancel(job)
    assert store.retry(job, 1) == 2
    assert (get(store, job).state, get(store, job).cancel_requested_at) == (State.READY, None)
    holder = Holder(store)
    holder.take()
    assert holder.renew().cancels == ()


def test_expired_job_can_run_again(store: Store, clock: FakeClock) -> None:
    now = clock.wall()
    job = add(store, expires_at=now + SECOND, deadline_at=now + MINUTE)
    clock.advance(timedelta(minutes=2))
    store.promote()
    store.retry(job, 1)
    store.promote()
    assert Holder(store).claim_ids() == [job]


def test_job_at_a_cap_gets_its_losses_back(store: Store) -> None:
    job = add(store, options=HOOK)
    holder = Holder(store)
    for _ in range(4):
        holder.settle(Orphan(holder.take(suspects=1), KILLED, begun=True, alone=True))
    assert get(store, job).state is State.FAILED
    store.retry(job, 1)
    assert (get(store, job).last_run, get(store, job).counters) == (False, Counters())


def test_token_goes_on_growing_in_the_new_round(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    holder.settle(Complete(holder.take()))
    store.retry(job, 1)
    (claimed,) = holder.claim()
    assert (claimed.lease.token, claimed.round, claimed.attempt) == (2, 2, 1)


def test_repeat_gets_the_same_answer_and_changes_nothing(store: Store) -> None:
    job = add(store)
    store.cancel(job)
    store.retry(job, 1)
    before = get(store, job), store.events(job)
    assert store.retry(job, 1) == 2
    assert (get(store, job), store.events(job)) == before


def test_repeat_gets_the_same_answer_after_the_new_round_is_over(store: Store) -> None:
    job = add(store)
    store.cancel(job)
    store.retry(job, 1)
    holder = Holder(store)
    holder.settle(Complete(holder.take()))
    assert store.retry(job, 1) == 2
    assert get(store, job).state is State.SUCCEEDED


def test_round_that_is_long_over_is_refused(store: Store) -> None:
    job = add(store)
    for seen in (1, 2):
        store.cancel(job)
        store.retry(job, seen)
    with pytest.raises(MoveRefused):
        store.retry(job, 1)


@pytest.mark.parametrize("seen", [0, 1, 2])
def test_job_that_is_not_finished_is_refused(store: Store, clock: FakeClock, seen: int) -> None:
    ready = add(store)
    running, quarantined = add(store, priority=2), add(store, priority=1)
    scheduled = add(store, scheduled_for=clock.wall() + SECOND)
    holder = Holder(store)
    _, lease = (each.lease for each in holder.claim(2))
    holder.settle(Quarantine(lease, BOOM))
    for job in (ready, running, quarantined, scheduled):
        before = get(store, job)
        if seen == 0:
            assert store.retry(job, seen) == 1  # the round it is in is the next of round 0
        else:
            with pytest.raises(MoveRefused):
                store.retry(job, seen)
        assert get(store, job) == before


def test_unknown_job_is_refused(store: Store) -> None:
    with pytest.raises(JobNotFound):
        store.retry(new_id(), 1)


def test_new_round_is_on_the_timeline(store: Store, clock: FakeClock) -> None:
    job = add(store)
    store.cancel(job)
    clock.advance(timedelta(seconds=1))
    store.retry(job, 1)
    event = history(store, job)[-1]
    assert (event.event, event.at) == (EventName.REOPENED, clock.wall())
