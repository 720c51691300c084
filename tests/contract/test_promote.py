"""promote: scheduled → ready when due; waiting → cancelled or failed when too late."""

from datetime import timedelta

from contract.driver import MINUTE, SECOND, Holder, add, add_many, counts, get, history

from limpet.domain.cause import DeadlinePassed, Expired
from limpet.domain.event import EventName
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.answers import Promoted
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock


def test_job_is_ready_from_the_moment_it_is_due(store: Store, clock: FakeClock) -> None:
    at = clock.wall() + SECOND
    job = add(store, scheduled_for=at)
    clock.advance(timedelta(microseconds=SECOND - 1))
    assert store.promote() == Promoted(ready=0, lapsed=0, more=False, next_due=at)
    assert get(store, job).state is State.SCHEDULED
    clock.advance(timedelta(microseconds=1))
    assert store.promote() == Promoted(ready=1, lapsed=0, more=False, next_due=None)
    assert (get(store, job).state, get(store, job).ready_at) == (State.READY, at)


def test_repeat_finds_nothing_left(store: Store, clock: FakeClock) -> None:
    add(store, scheduled_for=clock.wall() + SECOND)
    add(store, expires_at=clock.wall() + SECOND)
    clock.advance(timedelta(seconds=1))
    assert store.promote() == Promoted(ready=1, lapsed=1, more=False, next_due=None)
    assert store.promote() == Promoted(ready=0, lapsed=0, more=False, next_due=None)


def test_next_due_is_the_next_thing_to_come(store: Store, clock: FakeClock) -> None:
    now = clock.wall()
    assert store.promote().next_due is None
    add(store, scheduled_for=now + 3 * SECOND)
    assert store.promote().next_due == now + 3 * SECOND
    add(store, deadline_at=now + 2 * SECOND)
    assert store.promote().next_due == now + 2 * SECOND
    add(store, expires_at=now + SECOND)
    assert store.promote().next_due == now + SECOND


def test_job_that_did_not_start_in_time_is_cancelled(store: Store, clock: FakeClock) -> None:
    expires = clock.wall() + SECOND
    job = add(store, expires_at=expires)
    clock.advance(timedelta(microseconds=SECOND - 1))
    store.promote()
    assert get(store, job).state is State.READY
    clock.advance(timedelta(microseconds=1))
    store.promote()
    kept = get(store, job)
    assert (kept.state, kept.error) == (State.CANCELLED, Expired(at=expires))
    assert kept.finished_at == clock.wall()
    assert history(store, job)[-1].event is EventName.CANCELLED
    assert history(store, job)[-1].cause == Expired(at=expires)


def test_job_that_waits_past_its_deadline_fails(store: Store, clock: FakeClock) -> None:
    deadline = clock.wall() + SECOND
    job = add(store, deadline_at=deadline)
    clock.advance(timedelta(seconds=1))
    store.promote()
    kept = get(store, job)
    assert (kept.state, kept.error) == (State.FAILED, DeadlinePassed(at=deadline))
    assert history(store, job)[-1].event is EventName.FAILED


def test_deadline_outweighs_expiry_when_both_have_passed(store: Store, clock: FakeClock) -> None:
    now = clock.wall()
    job = add(store, expires_at=now + SECOND, deadline_at=now + 2 * SECOND)
    other = add(store, expires_at=now + SECOND, deadline_at=now + MINUTE)
    clock.advance(timedelta(seconds=2))
    store.promote()
    assert get(store, job).state is State.FAILED
    assert get(store, other).state is State.CANCELLED


def test_scheduled_job_that_is_due_too_late_never_becomes_ready(
    store: Store, clock: FakeClock
) -> None:
    now = clock.wall()
    job = add(store, scheduled_for=now + SECOND, expires_at=now + SECOND)
    clock.advance(timedelta(seconds=1))
    assert store.promote() == Promoted(ready=0, lapsed=1, more=False, next_due=None)
    assert get(store, job).state is State.CANCELLED


def test_blocked_job_lapses_too(store: Store, clock: FakeClock) -> None:
    job = add(store, "strange", expires_at=clock.wall() + SECOND)
    Holder(store).claim()
    clock.advance(timedelta(seconds=1))
    store.promote()
    assert (get(store, job).state, get(store, job).blocked_by) == (State.CANCELLED, None)
    Holder(store, ["strange"])
    assert get(store, job).state is State.CANCELLED


def test_running_job_is_left_to_its_holder(store: Store, clock: FakeClock) -> None:
    job = add(store, expires_at=clock.wall() + SECOND, deadline_at=clock.wall() + SECOND)
    holder = Holder(store)
    lease = holder.take()
    clock.advance(timedelta(seconds=5))
    assert store.promote() == Promoted(ready=0, lapsed=0, more=False, next_due=None)
    assert holder.settle(Complete(lease)) == ()
    assert get(store, job).state is State.SUCCEEDED


def test_deadline_still_counts_for_a_job_that_was_recovered(store: Store, clock: FakeClock) -> None:
    job = add(store, expires_at=clock.wall() + SECOND, deadline_at=clock.wall() + MINUTE)
    holder = Holder(store)
    holder.take(begin=True)
    holder.vanish()
    clock.advance(timedelta(seconds=30))
    store.promote()
    assert get(store, job).state is State.READY
    clock.advance(timedelta(seconds=30))
    store.promote()
    assert get(store, job).state is State.FAILED


def test_promotion_goes_in_small_steps(store: Store, clock: FakeClock) -> None:
    add_many(store, CHUNK, scheduled_for=clock.wall() + SECOND)
    add(store, scheduled_for=clock.wall() + 2 * SECOND)
    clock.advance(timedelta(seconds=2))
    first, second = store.promote(), store.promote()
    assert (first.ready, first.more) == (CHUNK, True)
    assert (second.ready, second.more) == (1, False)
    assert counts(store) == {State.READY: CHUNK + 1}
