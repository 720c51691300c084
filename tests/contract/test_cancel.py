"""cancel: waiting → cancelled; a running job is asked to stop."""

from contextlib import closing
from datetime import timedelta

import pytest
from contract.driver import BOOM, SECOND, Holder, add, counts, get, history, new_id, told

from limpet.domain.cause import Requested
from limpet.domain.errors import JobNotFound
from limpet.domain.event import EventName
from limpet.domain.state import State
from limpet.domain.transition import Cancel, Complete, Fail, Quarantine
from limpet.storage.contract.answers import Promoted
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock


def test_ready_job_is_cancelled_at_once(store: Store, clock: FakeClock) -> None:
    job = add(store)
    assert store.cancel(job, "not needed") is State.CANCELLED
    kept = get(store, job)
    assert (kept.state, kept.finished_at) == (State.CANCELLED, clock.wall())
    assert kept.error == Requested("not needed")
    assert history(store, job)[-1].cause == Requested("not needed")
    assert Holder(store).claim() == ()


def test_scheduled_job_is_cancelled_and_never_due(store: Store, clock: FakeClock) -> None:
    job = add(store, scheduled_for=clock.wall() + SECOND, expires_at=clock.wall() + SECOND)
    assert store.cancel(job) is State.CANCELLED
    clock.advance(timedelta(seconds=1))
    assert store.promote() == Promoted(ready=0, lapsed=0, more=False, next_due=None)


def test_blocked_job_is_cancelled_and_never_unblocked(store: Store) -> None:
    job = add(store, "strange")
    Holder(store).claim()
    assert store.cancel(job) is State.CANCELLED
    Holder(store, ["strange"])
    assert get(store, job).state is State.CANCELLED


def test_quarantined_job_is_cancelled(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    holder.settle(Quarantine(holder.take(), BOOM))
    assert store.cancel(job) is State.CANCELLED
    assert counts(store) == {State.CANCELLED: 1}


def test_running_job_runs_on_until_its_holder_confirms(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    holder.take()
    assert store.cancel(job, "enough") is State.RUNNING
    kept = get(store, job)
    assert (kept.state, kept.cancel_requested_at) == (State.RUNNING, clock.wall())
    assert kept.session == holder.id
    event = history(store, job)[-1]
    assert (event.event, event.cause) == (EventName.CANCEL_REQUESTED, Requested("enough"))


def test_repeat_of_a_request_changes_nothing(store: Store, clock: FakeClock) -> None:
    job = add(store)
    Holder(store).take()
    store.cancel(job, "first")
    before = get(store, job), store.events(job)
    clock.advance(timedelta(seconds=1))
    assert store.cancel(job, "second") is State.RUNNING
    assert (get(store, job), store.events(job)) == before


def test_final_job_is_left_as_it_is(store: Store) -> None:
    done, failed, cancelled = add(store), add(store), add(store)
    holder = Holder(store)
    holder.settle(Complete(holder.take()))
    holder.settle(Fail(holder.take(), BOOM))
    store.cancel(cancelled)
    states = {done: State.SUCCEEDED, failed: State.FAILED, cancelled: State.CANCELLED}
    for job, state in states.items():
        before = get(store, job), store.events(job)
        assert store.cancel(job) is state
        assert (get(store, job), store.events(job)) == before


def test_job_that_finishes_first_has_succeeded(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    store.cancel(job)
    assert holder.settle(Complete(lease, "1")) == ()
    assert (get(store, job).state, get(store, job).result) == (State.SUCCEEDED, "1")
    assert told(store, job)[-1] is EventName.SUCCEEDED


def test_unknown_job_is_refused(store: Store) -> None:
    with pytest.raises(JobNotFound):
        store.cancel(new_id())


def test_reason_for_cancelling_a_running_job_is_its_error_in_the_end(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    store.cancel(job, "wrong customer")
    holder.settle(Cancel(lease))
    assert str(get(store, job).error) == "wrong customer"


def test_request_wakes_the_holders_once_it_can_be_read(store: Store) -> None:
    job, holder = add(store), Holder(store)
    lease = holder.take()
    with closing(store.listen(Topic.CANCEL)) as bell:
        assert holder.renew().cancels == ()
        assert not bell.wait(timedelta(0))
        store.cancel(job)
        assert bell.wait(timedelta(seconds=10))
        assert holder.renew().cancels == (lease,)
        assert not bell.wait(timedelta(milliseconds=50))


def test_holders_are_not_woken_for_what_does_not_run(store: Store) -> None:
    running, done = add(store), add(store)
    holder = Holder(store)
    holder.take()
    store.cancel(running)
    holder.settle(Complete(holder.take()))
    with closing(store.listen(Topic.CANCEL)) as bell:
        for job in (running, done, add(store)):
            store.cancel(job)
        assert not bell.wait(timedelta(milliseconds=50))
