"""Permits of callers outside of any worker: each a session of its own."""

from contextlib import closing
from datetime import timedelta

import pytest
from contract.driver import KILLED, LEASE, Holder, add_many, new_id
from contract.gates import CORE, ROOM, Gated

from limpet.domain.errors import SessionLost, StoreRolledBack
from limpet.domain.permit import PermitRecord
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.weight import HEAVY
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock


def caller(store: Store, name: str = "backup", lease: timedelta = LEASE) -> str:
    """The session of somebody who asks for a permit."""
    session = NewSession(new_id(), SessionKind.PERMIT, name, "host", 1, lease)
    store.register(session)
    return session.id


def test_no_more_are_given_than_fit(store: Store, clock: FakeClock) -> None:
    room = ROOM._replace(cpu=3_000)
    callers = [caller(store) for _ in range(5)]
    given = [store.take_permit(each, CORE, room) for each in callers]
    assert given == [True, True, True, False, False]
    assert store.permits() == tuple(
        PermitRecord("web-1", each, each, "backup", CORE, clock.wall()) for each in callers[:3]
    )


def test_caller_that_asks_again_has_one_permit(store: Store) -> None:
    me = caller(store)
    assert store.take_permit(me, CORE, ROOM._replace(cpu=1_000))
    assert store.take_permit(me, CORE, ROOM._replace(cpu=1_000))
    assert len(store.permits()) == 1


def test_jobs_and_callers_share_the_room(store: Store) -> None:
    jobs = add_many(store, 4, task="render")
    me = caller(store)
    assert store.take_permit(me, CORE, ROOM)
    holder = Gated(store)
    assert holder.gated_ids() == jobs[:3]
    assert not store.take_permit(caller(store), CORE, ROOM)
    assert not store.take_permit(caller(store), HEAVY, ROOM)
    store.end(me, KILLED)
    assert holder.gated_ids() == jobs[3:]


def test_measured_room_counts_for_callers(store: Store) -> None:
    me = caller(store)
    assert not store.take_permit(me, CORE, ROOM._replace(free_cpu=0))
    assert store.permits() == ()
    assert store.take_permit(me, CORE, ROOM._replace(free_cpu=1))
    assert not store.take_permit(caller(store), HEAVY, ROOM._replace(calm=False, server="web-2"))


def test_permit_is_gone_when_its_session_ends(store: Store) -> None:
    me = caller(store)
    store.take_permit(me, CORE, ROOM)
    with closing(store.listen(Topic.READY)) as bell:
        assert store.end(me, KILLED)
        assert bell.wait(timedelta(seconds=5))
    assert store.permits() == ()
    assert not store.end(me, KILLED)


def test_permit_is_gone_when_its_lease_has_run_out(store: Store, clock: FakeClock) -> None:
    me = caller(store)
    store.take_permit(me, CORE, ROOM)
    clock.advance(LEASE - timedelta(seconds=1))
    store.renew(me)
    clock.advance(LEASE - timedelta(seconds=1))
    store.expire()
    assert len(store.permits()) == 1
    clock.advance(timedelta(seconds=1))
    store.expire()
    assert store.permits() == ()


def test_session_that_is_over_is_given_none(store: Store, clock: FakeClock) -> None:
    dead, past = caller(store), caller(store)
    store.end(dead, KILLED)
    with pytest.raises(SessionLost):
        store.take_permit(dead, CORE, ROOM)
    clock.advance(LEASE)
    with pytest.raises(SessionLost):
        store.take_permit(past, CORE, ROOM)
    with pytest.raises(StoreRolledBack):
        store.take_permit(new_id(), CORE, ROOM)
    assert store.permits() == ()


def test_caller_has_no_jobs_and_is_told_apart_from_workers(store: Store) -> None:
    me = caller(store)
    Holder(store)
    store.take_permit(me, CORE, ROOM)
    assert store.held(me) == ()
    kinds = {each.id: each.kind for each in store.sessions()}
    assert kinds[me] is SessionKind.PERMIT
