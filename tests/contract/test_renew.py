"""renew: one write keeps everything that the session holds, and tells it what it should know."""

from datetime import timedelta

import pytest
from contract.driver import LEASE, Holder, add, add_many, get, new_id, session_of

from limpet.domain.cause import Drained
from limpet.domain.duration import microseconds
from limpet.domain.errors import StoreRolledBack
from limpet.domain.lease import Digest, digest
from limpet.domain.session import SessionState, Standing
from limpet.domain.state import State
from limpet.domain.transition import Complete, Release
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock


def test_renewal_holds_the_lease_for_one_lease_from_now(store: Store, clock: FakeClock) -> None:
    holder = Holder(store)
    clock.advance(LEASE / 2)
    renewed = holder.renew()
    assert renewed.standing is Standing.LIVE
    assert renewed.moment == clock.boot() + microseconds(LEASE)
    assert session_of(store, holder.id).moment == renewed.moment
    assert session_of(store, holder.id).renewed_at == clock.wall()


def test_session_that_renews_is_never_expired(store: Store, clock: FakeClock) -> None:
    holder = Holder(store)
    for _ in range(10):
        clock.advance(LEASE - timedelta(microseconds=1))
        assert holder.renew().standing is Standing.LIVE
        store.expire()
    assert session_of(store, holder.id).state is SessionState.LIVE


def test_each_session_has_the_lease_it_asked_for(store: Store, clock: FakeClock) -> None:
    short = Holder(store, lease=timedelta(seconds=1))
    long = Holder(store, lease=timedelta(minutes=1))
    assert short.renew().moment - clock.boot() == 1_000_000
    assert long.renew().moment - clock.boot() == 60_000_000


def test_session_past_its_moment_is_told_so_and_not_renewed(store: Store, clock: FakeClock) -> None:
    holder = Holder(store)
    clock.advance(LEASE)
    renewed = holder.renew()
    assert (renewed.standing, renewed.moment) == (Standing.PAST, holder.registered.moment)
    assert session_of(store, holder.id).moment == holder.registered.moment
    assert session_of(store, holder.id).overdue


def test_session_past_its_moment_is_renewed_if_the_stores_clock_was_stepped(
    store: Store, clock: FakeClock
) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take(begin=True)
    clock.advance(LEASE * 3)
    renewed = holder.renew(stepped=True)
    assert (renewed.standing, renewed.moment) == (
        Standing.LIVE,
        clock.boot() + microseconds(LEASE),
    )
    assert store.expire() == ()
    assert holder.settle(Complete(lease)) == ()
    assert get(store, job).state is State.SUCCEEDED


def test_dead_session_is_not_renewed_whatever_was_stepped(store: Store, clock: FakeClock) -> None:
    holder = Holder(store)
    clock.advance(LEASE)
    store.expire()
    assert holder.renew(stepped=True).standing is Standing.DEAD


def test_draining_session_stays_so_when_the_clock_is_stepped(
    store: Store, clock: FakeClock
) -> None:
    holder = Holder(store)
    holder.renew(draining=True)
    clock.advance(LEASE)
    assert holder.renew(stepped=True).standing is Standing.DRAINING
    assert session_of(store, holder.id).state is SessionState.DRAINING


def test_dead_session_is_told_so_and_stays_dead(store: Store) -> None:
    holder = Holder(store)
    holder.die()
    assert holder.renew().standing is Standing.DEAD
    assert session_of(store, holder.id).state is SessionState.DEAD


def test_unknown_session_means_that_the_store_forgot(store: Store) -> None:
    with pytest.raises(StoreRolledBack):
        store.renew(new_id())


def test_draining_is_kept_and_still_renewed(store: Store, clock: FakeClock) -> None:
    holder = Holder(store)
    assert holder.renew(draining=True).standing is Standing.DRAINING
    clock.advance(LEASE / 2)
    renewed = holder.renew()
    assert renewed.standing is Standing.DRAINING
    assert renewed.moment == clock.boot() + microseconds(LEASE)
    assert session_of(store, holder.id).state is SessionState.DRAINING


def test_renewal_tells_which_jobs_to_stop(store: Store) -> None:
    add_many(store, 3)
    holder = Holder(store)
    leases = [each.lease for each in holder.claim()]
    assert holder.renew().cancels == ()
    store.cancel(leases[1].job)
    assert holder.renew().cancels == (leases[1],)


def test_renewal_tells_nothing_of_the_jobs_of_others(store: Store) -> None:
    add(store)
    holder, other = Holder(store), Holder(store)
    store.cancel(holder.take().job)
    assert other.renew().cancels == ()
    assert other.renew().digest == Digest()


def test_renewal_tells_which_queues_are_paused(store: Store) -> None:
    holder = Holder(store)
    store.pause("b")
    store.pause("a")
    assert holder.renew().paused == ("a", "b")
    store.pause("a", paused=False)
    assert holder.renew().paused == ("b",)


def test_renewal_tells_the_digest_the_seq_and_the_epoch(store: Store) -> None:
    add_many(store, 3)
    holder = Holder(store)
    leases = [each.lease for each in holder.claim(2)]
    renewed = holder.renew()
    assert renewed.digest == digest((lease.job, lease.token) for lease in leases)
    assert renewed.seq == 1
    assert renewed.epoch == holder.registered.epoch == store.info().epoch


def test_renewal_keeps_which_jobs_have_begun(store: Store) -> None:
    add_many(store, 2)
    holder = Holder(store)
    first, second = (each.lease for each in holder.claim())
    holder.renew(begun=[first])
    assert (get(store, first.job).begun, get(store, second.job).begun) == (True, False)


def test_begun_of_a_lease_that_does_not_hold_is_not_kept(store: Store) -> None:
    job = add(store)
    holder, other = Holder(store), Holder(store)
    lease = holder.take()
    holder.renew(begun=[lease._replace(token=0)])
    other.renew(begun=[lease])
    assert not get(store, job).begun


def test_session_past_its_moment_may_still_say_what_has_begun(
    store: Store, clock: FakeClock
) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    clock.advance(LEASE)
    holder.renew(begun=[lease])
    assert get(store, job).begun


def test_repeat_of_a_renewal_that_arrives_after_later_ones_changes_nothing_else(
    store: Store, clock: FakeClock
) -> None:
    """A worker sends a renewal again on another connection when its answer is late: the first one
    may arrive much later, or both at once.
    """
    job = add(store)
    holder = Holder(store)
    first = holder.take(begin=True)
    holder.exchange(Release(first, Drained()))
    again = holder.take()
    assert again.job == job
    holder.renew(draining=True)
    late = holder.renew(begun=[first])
    assert late.standing is Standing.DRAINING
    assert late.seq == holder.seq
    assert first not in late.unrecorded
    assert late.digest == digest([(again.job, again.token)])
    assert not get(store, job).begun, "it is the later attempt that runs, and that has not begun"
    store.end(holder.id, Drained())
    moment = session_of(store, holder.id).moment
    clock.advance(timedelta(seconds=1))
    assert holder.renew(begun=[first]).standing is Standing.DEAD
    assert session_of(store, holder.id).moment == moment
