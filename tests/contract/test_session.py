"""register and end: a session begins once and is dead for ever."""

from dataclasses import replace
from datetime import timedelta

import pytest
from contract.driver import (
    KILLED,
    LEASE,
    SECOND,
    Holder,
    add,
    add_many,
    counts,
    get,
    new_id,
    session_of,
    told,
)

from limpet.domain.cause import Drained
from limpet.domain.duration import microseconds
from limpet.domain.errors import SessionLost
from limpet.domain.event import EventName
from limpet.domain.session import NewSession, SessionKind, SessionLock, SessionState
from limpet.domain.state import State
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock


def test_registered_session_is_live_for_one_lease(store: Store, clock: FakeClock) -> None:
    holder = Holder(store)
    kept = session_of(store, holder.id)
    assert kept.state is SessionState.LIVE
    assert kept.moment == holder.registered.moment == clock.boot() + microseconds(LEASE)
    assert (kept.registered_at, kept.renewed_at, kept.ended_at) == (
        clock.wall(),
        clock.wall(),
        None,
    )
    assert (kept.seq, kept.holds, kept.overdue, kept.cause) == (0, 0, False, None)


def test_session_reads_back_as_it_was_given(store: Store) -> None:
    new = NewSession(new_id(), SessionKind.PERMIT, "w1", "host9", 77, timedelta(seconds=3))
    store.register(new)
    kept = session_of(store, new.id)
    assert (kept.kind, kept.name, kept.host, kept.pid) == (SessionKind.PERMIT, "w1", "host9", 77)
    assert kept.lease == timedelta(seconds=3)


def test_session_keeps_its_lock_and_the_boot_that_it_is_good_for(store: Store) -> None:
    lock = SessionLock("/run/limpet/w1 \N{SNOWMAN}", 2**40 + 1, "n0nce")
    new = NewSession(new_id(), SessionKind.WORKER, "w1", "host9", 77, lock=lock)
    store.register(new)
    without = Holder(store)
    kept = session_of(store, new.id)
    assert kept.lock == lock
    assert session_of(store, without.id).lock is None
    assert kept.boot == session_of(store, without.id).boot != ""


def test_lock_of_a_dead_session_is_still_told_to_whoever_takes_its_jobs(store: Store) -> None:
    lock = SessionLock("/run/limpet/w1", 7, "n0nce")
    add(store)
    holder = Holder(store, lock=lock)
    holder.take()
    holder.die()
    assert [each.lock for each in store.expire()] == [lock]


def test_repeat_of_a_registration_keeps_the_first_lock(store: Store) -> None:
    lock = SessionLock("/run/limpet/w1", 7, "n0nce")
    holder = Holder(store, lock=lock)
    store.register(replace(holder.new, lock=SessionLock("/run/limpet/w1", 8, "other")))
    assert session_of(store, holder.id).lock == lock


def test_repeat_is_answered_the_same_and_renews_nothing(store: Store, clock: FakeClock) -> None:
    holder = Holder(store)
    before = session_of(store, holder.id)
    clock.advance(LEASE / 2)
    assert store.register(holder.new) == holder.registered
    assert session_of(store, holder.id) == before


def test_id_of_a_dead_session_is_refused(store: Store) -> None:
    holder = Holder(store)
    holder.die()
    with pytest.raises(SessionLost):
        store.register(holder.new)


def test_equal_sets_of_tasks_have_equal_digests(store: Store) -> None:
    first, second = Holder(store, ["a", "b"]), Holder(store, ["b", "a"])
    assert first.registered.tasks == second.registered.tasks
    assert first.registered.tasks != Holder(store, ["a"]).registered.tasks


def test_session_that_knows_a_task_unblocks_its_jobs(store: Store) -> None:
    job, other = add(store, "strange"), add(store, "stranger")
    Holder(store).claim()
    Holder(store, ["strange"])
    assert (get(store, job).state, get(store, job).blocked_by) == (State.READY, None)
    assert get(store, other).state is State.BLOCKED
    assert told(store, job)[-2:] == [EventName.BLOCKED, EventName.UNBLOCKED]


def test_jobs_are_unblocked_a_chunk_at_a_time(store: Store) -> None:
    for _ in range(2):
        add_many(store, CHUNK, task="strange")
        Holder(store).claim()
    assert counts(store) == {State.BLOCKED: 2 * CHUNK}
    holder = Holder(store, ["strange"])
    assert counts(store) == {State.BLOCKED: CHUNK, State.READY: CHUNK}
    holder.renew()
    assert counts(store) == {State.READY: 2 * CHUNK}


def test_ended_session_is_dead_with_its_cause(store: Store, clock: FakeClock) -> None:
    holder = Holder(store)
    assert store.end(holder.id, Drained())
    kept = session_of(store, holder.id)
    assert (kept.state, kept.cause, kept.ended_at) == (SessionState.DEAD, Drained(), clock.wall())


def test_draining_session_can_be_ended(store: Store) -> None:
    holder = Holder(store)
    holder.renew(draining=True)
    assert store.end(holder.id, Drained())


def test_end_of_a_dead_or_unknown_session_changes_nothing(store: Store) -> None:
    holder = Holder(store)
    store.end(holder.id, Drained())
    assert not store.end(holder.id, KILLED)
    assert not store.end(new_id(), KILLED)
    assert session_of(store, holder.id).cause == Drained()


def test_jobs_of_an_ended_session_wait_for_recovery(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    holder.die()
    assert get(store, job).state is State.RUNNING
    assert store.held(holder.id) == (lease,)
    assert Holder(store).claim() == ()


def test_sessions_are_listed_newest_first_without_the_dead(store: Store, clock: FakeClock) -> None:
    first = Holder(store)
    clock.advance(timedelta(seconds=1))
    second = Holder(store)
    clock.advance(timedelta(seconds=1))
    third = Holder(store)
    second.die()
    assert [each.id for each in store.sessions()] == [third.id, first.id]
    everyone = [each.id for each in store.sessions(with_dead=True)]
    assert everyone == [third.id, second.id, first.id]


def test_session_tells_how_much_it_holds(store: Store) -> None:
    add_many(store, 3)
    holder = Holder(store)
    holder.claim(2)
    kept = session_of(store, holder.id)
    assert (kept.holds, kept.seq) == (2, 1)


def test_next_moment_is_that_of_the_first_lease_to_end(store: Store, clock: FakeClock) -> None:
    assert store.outlook().next_moment is None
    Holder(store, lease=timedelta(minutes=1))
    short = Holder(store, lease=timedelta(seconds=1))
    assert store.outlook().next_moment == clock.boot() + SECOND
    short.die()
    assert store.outlook().next_moment == clock.boot() + 60 * SECOND
