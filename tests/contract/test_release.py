"""release: running → ready in its old place, uncharged."""

from contract.driver import LEASE, Holder, add, add_many, get, history, new_id

from limpet.domain.cause import Drained, NotStarted, Requested
from limpet.domain.event import EventName
from limpet.domain.job import Counters
from limpet.domain.lease import Lease
from limpet.domain.state import State
from limpet.domain.transition import Rejected
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock


def test_released_job_is_ready_and_pays_nothing(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    ready_at = get(store, job).ready_at
    assert holder.release(holder.take(begin=True), cause=Drained()) == ()
    kept = get(store, job)
    assert (kept.state, kept.ready_at, kept.begun) == (State.READY, ready_at, False)
    assert (kept.counters, kept.error) == (Counters(), None)


def test_release_is_on_the_timeline_with_its_cause(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    holder.release(lease, cause=NotStarted())
    event = history(store, job)[-1]
    assert (event.event, event.cause) == (EventName.RELEASED, NotStarted())
    assert (event.session, event.token) == (holder.id, lease.token)


def test_released_job_can_be_claimed_with_the_next_token(store: Store) -> None:
    add(store)
    holder = Holder(store)
    holder.release(holder.take(), cause=Drained())
    assert Holder(store).take().token == 2


def test_release_needs_no_turn_of_the_exchange(store: Store) -> None:
    add(store)
    holder = Holder(store)
    holder.release(holder.take(), cause=Drained())
    assert holder.renew().seq == 1
    assert len(holder.claim()) == 1


def test_several_are_released_in_one_step(store: Store) -> None:
    add_many(store, 3)
    holder = Holder(store)
    leases = [each.lease for each in holder.claim()]
    assert holder.release(*leases[:2], cause=Drained()) == ()
    assert store.held(holder.id) == (leases[2],)


def test_repeat_is_answered_already(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    holder.release(lease, cause=Drained())
    before = get(store, job), store.events(job)
    assert holder.release(lease, cause=Drained()) == (Rejected(lease, "already"),)
    assert (get(store, job), store.events(job)) == before


def test_job_whose_cancel_was_requested_is_cancelled(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    store.cancel(job)
    assert holder.release(lease, cause=Drained()) == ()
    kept = get(store, job)
    assert (kept.state, kept.finished_at) == (State.CANCELLED, clock.wall())
    assert isinstance(kept.error, Requested)


def test_session_past_its_moment_may_release(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take(begin=True)
    clock.advance(LEASE)
    assert holder.release(lease, cause=Drained()) == ()
    assert (get(store, job).state, get(store, job).counters) == (State.READY, Counters())


def test_dead_session_may_not_release(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    holder.die()
    assert holder.release(lease, cause=Drained()) == (Rejected(lease, "lost"),)
    assert get(store, job).state is State.RUNNING


def test_release_of_a_job_that_is_not_there_is_answered_gone(store: Store) -> None:
    holder = Holder(store)
    lease = Lease(new_id(), holder.id, 1)
    assert holder.release(lease, cause=Drained()) == (Rejected(lease, "gone"),)


def test_unknown_session_releases_nothing(store: Store) -> None:
    job = add(store)
    Holder(store).take()
    lease = Lease(job, new_id(), 1)
    assert store.release(lease.session, [lease], Drained()) == (Rejected(lease, "lost"),)
    assert get(store, job).state is State.RUNNING
