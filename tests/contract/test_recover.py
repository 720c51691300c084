"""expire and recover: what a dead session held is ready again, once, and who pays is just."""

from datetime import timedelta

import pytest
from contract.driver import (
    BOOM,
    HOOK,
    KILLED,
    LEASE,
    Holder,
    add,
    add_many,
    counts,
    get,
    history,
    new_id,
    session_of,
)

from limpet.domain.cause import Drained, StoreOutage, TooManyOrphans, WorkerVanished
from limpet.domain.event import EventName
from limpet.domain.job import Counters
from limpet.domain.lease import Digest
from limpet.domain.session import SessionState
from limpet.domain.state import State
from limpet.domain.transition import MOST_ORPHANS, Complete, Fail, Orphan, RetryAt
from limpet.storage.contract.answers import Recovered
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock

HOUR = timedelta(hours=1)


def test_session_past_its_moment_is_marked_dead(store: Store, clock: FakeClock) -> None:
    add(store)
    holder = Holder(store)
    holder.take()
    seen = clock.wall()
    clock.advance(LEASE)
    (dead,) = store.expire()
    assert (dead.id, dead.state, dead.holds) == (holder.id, SessionState.DEAD, 1)
    assert dead.cause == WorkerVanished(last_seen=seen)
    assert dead == session_of(store, holder.id)


def test_session_is_not_expired_before_its_moment(store: Store, clock: FakeClock) -> None:
    add(store)
    holder = Holder(store)
    holder.take()
    clock.advance(LEASE - timedelta(microseconds=1))
    assert store.expire() == ()
    assert session_of(store, holder.id).state is SessionState.LIVE


def test_draining_session_past_its_moment_is_marked_dead(store: Store, clock: FakeClock) -> None:
    holder = Holder(store)
    holder.renew(draining=True)
    clock.advance(LEASE)
    store.expire()
    assert session_of(store, holder.id).state is SessionState.DEAD


@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["forward", "back"])
def test_step_of_the_wall_clock_ends_no_session(
    store: Store, clock: FakeClock, step: timedelta
) -> None:
    add(store)
    holder = Holder(store)
    holder.take()
    clock.step_wall(step)
    assert store.expire() == ()
    assert holder.renew().standing == "live"


@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["forward", "back"])
def test_step_of_the_wall_clock_keeps_no_session_alive(
    store: Store, clock: FakeClock, step: timedelta
) -> None:
    add(store)
    holder = Holder(store)
    holder.take()
    clock.step_wall(step)
    clock.advance(LEASE)
    assert [each.id for each in store.expire()] == [holder.id]


def test_expire_lists_the_dead_until_their_jobs_are_recovered(
    store: Store, clock: FakeClock
) -> None:
    add_many(store, 2)
    ended, expired, idle = Holder(store), Holder(store), Holder(store)
    ended.take()
    expired.take()
    ended.die()
    clock.advance(LEASE)
    for _ in range(2):
        assert {each.id for each in store.expire()} == {ended.id, expired.id}
    store.recover(ended.id)
    assert [each.id for each in store.expire()] == [expired.id]
    store.recover(expired.id)
    assert store.expire() == ()
    assert session_of(store, idle.id).state is SessionState.DEAD


def test_recovered_job_is_ready_with_an_orphan_more(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    holder.take(begin=True)
    holder.die()
    assert store.recover(holder.id) == Recovered(ready=1, failed=0, cancelled=0, more=False)
    kept = get(store, job)
    assert (kept.state, kept.session, kept.begun) == (State.READY, None, False)
    assert (kept.counters, kept.suspect) == (Counters(orphans=1), False)
    assert (kept.error, kept.finished_at) == (None, None)


def test_cause_of_the_loss_is_on_the_timeline(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take(begin=True)
    claimed_at = clock.wall()
    clock.advance(timedelta(seconds=3))
    holder.vanish()
    _, claimed, recovered = history(store, job)
    assert (claimed.event, claimed.at) == (EventName.CLAIMED, claimed_at)
    assert (claimed.session, claimed.token) == (holder.id, lease.token)
    assert (recovered.event, recovered.at, recovered.cause) == (
        EventName.RECOVERED,
        clock.wall(),
        KILLED,
    )
    assert (recovered.session, recovered.token) == (holder.id, lease.token)


def test_job_that_had_not_begun_pays_nothing(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    holder.take()
    holder.vanish()
    assert (get(store, job).state, get(store, job).counters) == (State.READY, Counters())


@pytest.mark.parametrize("cause", [Drained(), StoreOutage(12.0)], ids=lambda each: each.kind)
def test_drains_and_outages_cost_nothing(store: Store, cause: Drained | StoreOutage) -> None:
    job = add(store)
    holder = Holder(store)
    holder.take(begin=True)
    holder.vanish(cause)
    assert (get(store, job).state, get(store, job).counters) == (State.READY, Counters())


def test_suspect_that_had_not_begun_stays_one(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    holder.settle(Orphan(holder.take(), KILLED, begun=True, alone=False))
    holder.take(suspects=1)
    holder.vanish()
    assert get(store, job).suspect


def test_tenth_loss_fails_the_job_with_every_cause(store: Store) -> None:
    job = add(store)
    for _ in range(MOST_ORPHANS):
        assert get(store, job).state is State.READY
        holder = Holder(store)
        holder.take(begin=True)
        holder.die()
        recovered = store.recover(holder.id)
    assert recovered == Recovered(ready=0, failed=1, cancelled=0, more=False)
    kept = get(store, job)
    assert (kept.state, kept.error) == (State.FAILED, TooManyOrphans(MOST_ORPHANS))
    assert kept.counters == Counters(orphans=MOST_ORPHANS)
    causes = [event.cause for event in history(store, job) if event.cause]
    assert causes == [KILLED] * MOST_ORPHANS + [TooManyOrphans(MOST_ORPHANS)]


def test_orphan_hook_gets_one_last_run_and_a_death_in_it_is_the_end(store: Store) -> None:
    job = add(store, options=HOOK)
    for _ in range(MOST_ORPHANS):
        holder = Holder(store)
        holder.take(begin=True)
        holder.vanish()
    assert (get(store, job).state, get(store, job).last_run) == (State.READY, True)
    holder = Holder(store)
    (last,) = holder.claim()
    assert last.last_run
    holder.renew(begun=[last.lease])
    holder.vanish()
    assert get(store, job).state is State.FAILED


def test_last_run_that_had_not_begun_is_still_to_come(store: Store) -> None:
    job = add(store, options=HOOK)
    for _ in range(MOST_ORPHANS):
        holder = Holder(store)
        holder.take(begin=True)
        holder.vanish()
    holder = Holder(store)
    holder.take()
    holder.vanish()
    assert (get(store, job).state, get(store, job).last_run) == (State.READY, True)


def test_failures_and_losses_are_counted_apart(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    holder.settle(RetryAt(holder.take(begin=True), clock.wall(), BOOM))
    store.promote()
    holder.take(begin=True)
    holder.vanish()
    assert get(store, job).counters == Counters(failures=1, orphans=1)


def test_job_whose_cancel_was_requested_is_cancelled(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    holder.take(begin=True)
    store.cancel(job)
    holder.die()
    assert store.recover(holder.id) == Recovered(ready=0, failed=0, cancelled=1, more=False)
    assert (get(store, job).state, get(store, job).finished_at) == (State.CANCELLED, clock.wall())


def test_jobs_of_a_session_that_is_not_dead_are_not_touched(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    holder.take()
    before = get(store, job)
    for _ in range(2):
        assert store.recover(holder.id) == Recovered(0, 0, 0, more=False)
        assert get(store, job) == before
        clock.advance(LEASE)  # past its moment, but nobody has marked it
    assert store.recover(new_id()) == Recovered(0, 0, 0, more=False)


def test_repeat_finds_nothing_left(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    holder.take(begin=True)
    holder.vanish()
    assert store.recover(holder.id) == Recovered(0, 0, 0, more=False)
    assert get(store, job).counters == Counters(orphans=1)


def test_recovery_goes_in_small_steps(store: Store) -> None:
    holder = Holder(store)
    for _ in range(2):
        add_many(store, CHUNK)
        holder.claim(CHUNK)
    holder.die()
    steps = [store.recover(holder.id) for _ in range(3)]
    assert [(step.jobs, step.more) for step in steps] == [(CHUNK, True), (CHUNK, True), (0, False)]
    assert counts(store) == {State.READY: 2 * CHUNK}


def test_recovery_takes_only_the_jobs_of_that_session(store: Store) -> None:
    add_many(store, 2)
    dead, living = Holder(store), Holder(store)
    dead.take()
    lease = living.take()
    dead.vanish()
    assert store.held(living.id) == (lease,)
    assert living.settle(Complete(lease)) == ()


def test_jobs_that_a_dead_session_had_settled_stay_settled(store: Store) -> None:
    jobs = add_many(store, 2)
    holder = Holder(store)
    holder.settle(Complete(holder.take()))
    holder.settle(Fail(holder.take(), BOOM))
    before = [get(store, job) for job in jobs]
    holder.die()
    assert store.recover(holder.id).jobs == 0
    assert [get(store, job) for job in jobs] == before


def test_dead_session_holds_nothing_after_recovery(store: Store) -> None:
    add_many(store, 3)
    holder = Holder(store)
    holder.claim()
    holder.vanish()
    assert store.held(holder.id) == ()
    assert holder.renew().digest == Digest()
