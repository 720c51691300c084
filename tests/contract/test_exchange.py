"""exchange, its frame: the same seq gets the same answer; a session does what its standing lets."""

from datetime import timedelta

import pytest
from contract.driver import KILLED, LEASE, Holder, add, add_many, counts, get, new_id

from limpet.domain.errors import SequenceError, StoreRolledBack
from limpet.domain.lease import digest
from limpet.domain.session import Standing
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, Rejected
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock


def test_same_seq_gets_the_same_answer_and_does_nothing_again(store: Store) -> None:
    add_many(store, 4)
    holder = Holder(store)
    lease = holder.take()
    stale = lease._replace(token=9)
    settlements = [Complete(lease, "1"), Complete(stale)]
    first = store.exchange(holder.id, 2, settlements, holder.want(2))
    again = store.exchange(holder.id, 2, settlements, holder.want(2))
    assert again == first
    assert first.rejected == (Rejected(stale, "lost"),)
    assert counts(store) == {State.SUCCEEDED: 1, State.RUNNING: 2, State.READY: 1}


def test_repeat_of_a_seq_ignores_what_else_it_brings(store: Store) -> None:
    add_many(store, 2)
    holder = Holder(store)
    lease = holder.take()
    store.exchange(holder.id, 1, [Fail(lease, KILLED)], holder.want(5))
    assert counts(store) == {State.RUNNING: 1, State.READY: 1}


def test_repeat_leaves_out_what_earlier_exchanges_claimed(store: Store) -> None:
    first, second = add_many(store, 2)
    holder = Holder(store)
    assert holder.claim_ids(1) == [first]
    assert holder.claim_ids(1) == [second]
    again = store.exchange(holder.id, 2, (), holder.want())
    assert [each.lease.job for each in again.claimed] == [second]


def test_repeat_leaves_out_what_was_taken_away_since(store: Store) -> None:
    first, second = add_many(store, 2)
    holder = Holder(store)
    holder.claim()
    holder.release(store.held(holder.id)[0], cause=KILLED)
    Holder(store).take()
    repeat = store.exchange(holder.id, 1, (), holder.want())
    assert [each.lease.job for each in repeat.claimed] == [second]
    assert get(store, first).token == 2


def test_older_seq_is_refused_and_does_nothing(store: Store) -> None:
    add_many(store, 3)
    holder = Holder(store)
    holder.take()
    holder.take()
    with pytest.raises(SequenceError):
        store.exchange(holder.id, 1, (), holder.want())
    assert counts(store) == {State.RUNNING: 2, State.READY: 1}


@pytest.mark.parametrize("seq", [0, -1])
def test_first_seq_is_one(store: Store, seq: int) -> None:
    add(store)
    holder = Holder(store)
    with pytest.raises(SequenceError):
        store.exchange(holder.id, seq, (), holder.want())
    assert counts(store) == {State.READY: 1}


def test_seq_from_the_future_means_that_the_store_forgot(store: Store) -> None:
    add(store)
    holder = Holder(store)
    with pytest.raises(StoreRolledBack):
        store.exchange(holder.id, 2, (), holder.want())
    assert counts(store) == {State.READY: 1}


def test_unknown_session_means_that_the_store_forgot(store: Store) -> None:
    with pytest.raises(StoreRolledBack):
        store.exchange(new_id(), 1)


def test_refused_seq_leaves_the_next_one_as_it_was(store: Store) -> None:
    holder = Holder(store)
    holder.exchange()
    with pytest.raises(StoreRolledBack):
        store.exchange(holder.id, 5)
    assert holder.exchange().standing is Standing.LIVE
    assert holder.renew().seq == 2


def test_draining_session_settles_and_claims_nothing(store: Store) -> None:
    first, _ = add_many(store, 2)
    holder = Holder(store)
    lease = holder.take()
    holder.renew(draining=True)
    answer = holder.exchange(Complete(lease), want=holder.want())
    assert (answer.standing, answer.claimed) == (Standing.DRAINING, ())
    assert get(store, first).state is State.SUCCEEDED


def test_session_past_its_moment_settles_and_claims_nothing(store: Store, clock: FakeClock) -> None:
    first, _ = add_many(store, 2)
    holder = Holder(store)
    lease = holder.take()
    clock.advance(LEASE)
    answer = holder.exchange(Complete(lease), want=holder.want())
    assert (answer.standing, answer.rejected, answer.claimed) == (Standing.PAST, (), ())
    assert get(store, first).state is State.SUCCEEDED


def test_session_claims_until_its_moment(store: Store, clock: FakeClock) -> None:
    add(store)
    holder = Holder(store)
    clock.advance(LEASE - timedelta(microseconds=1))
    assert len(holder.claim()) == 1


def test_dead_session_neither_settles_nor_claims(store: Store) -> None:
    first, second = add_many(store, 2)
    holder = Holder(store)
    lease = holder.take()
    holder.die()
    answer = holder.exchange(Complete(lease), want=holder.want())
    assert answer.standing is Standing.DEAD
    assert answer.rejected == (Rejected(lease, "lost"),)
    assert answer.claimed == ()
    assert (get(store, first).state, get(store, second).state) == (State.RUNNING, State.READY)


def test_dead_session_cannot_say_that_a_job_has_begun(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    holder.die()
    holder.exchange(begun=[lease])
    assert not get(store, job).begun


def test_dead_session_still_hears_its_last_answer_without_the_jobs_it_lost(store: Store) -> None:
    add(store)
    holder = Holder(store)
    holder.claim()
    holder.vanish()
    repeat = store.exchange(holder.id, 1, (), holder.want())
    assert (repeat.standing, repeat.claimed) == (Standing.DEAD, ())


def test_begun_is_kept(store: Store) -> None:
    first, second = add_many(store, 2)
    holder = Holder(store)
    leases = [each.lease for each in holder.claim()]
    holder.exchange(begun=leases[:1])
    assert (get(store, first).begun, get(store, second).begun) == (True, False)


def test_digest_follows_settles_and_claims(store: Store) -> None:
    add_many(store, 5)
    holder = Holder(store)
    leases = [each.lease for each in holder.claim(3)]
    answer = holder.exchange(Complete(leases[1]), want=holder.want(1))
    mine = [leases[0], leases[2], answer.claimed[0].lease]
    assert holder.renew().digest == digest((lease.job, lease.token) for lease in mine)
