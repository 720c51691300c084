"""What hosts have given stays behind when a store moves: whoever holds it is waited for."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from contract.driver import KILLED, add
from contract.gates import CORE, ROOM, Gated
from contract.moving import CLOSED, CLOSING, carry, step
from contract.test_permits import caller

from limpet.domain.errors import StoreMoved
from limpet.domain.host import Sample, Span
from limpet.domain.transition import Complete
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock

LIFETIME = timedelta(minutes=1)


@pytest.fixture
def other(clock: FakeClock) -> Iterator[Store]:
    """The other side of a move."""
    with closing(open_store("sqlite://", clock)) as opened:
        yield opened


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "arrives"])
def test_permits_and_hosts_are_not_carried_along(
    store: Store, other: Store, clock: FakeClock, leaves: bool
) -> None:
    source, target = (store, other) if leaves else (other, store)
    add(source, task="render")
    source.publish_host("web-1", "{}", LIFETIME, [Sample(Span.SECOND, clock.wall(), "[1]")])
    assert source.take_permit(caller(source), CORE, ROOM)
    assert carry(source, target) == 1
    assert (target.permits(), target.hosts(), target.reservations()) == ((), (), ())
    assert target.samples("web-1", Span.SECOND) == ()


def test_store_that_is_closed_gives_no_permit_and_hears_of_no_host(store: Store) -> None:
    me, second = caller(store), caller(store)
    assert store.take_permit(me, CORE, ROOM)
    step(store, None, CLOSING, CLOSED)
    with pytest.raises(StoreMoved):
        store.take_permit(second, CORE, ROOM)
    with pytest.raises(StoreMoved):
        store.publish_host("web-1", "{}", LIFETIME)
    assert store.hosts() == ()
    assert store.end(me, KILLED)
    assert store.permits() == ()


def test_job_of_a_store_that_closes_gives_its_permit_back(store: Store) -> None:
    add(store, task="render")
    add(store, task="render")
    holder = Gated(store, room=ROOM._replace(cpu=1_000))
    (held,) = holder.gated()
    step(store, None, CLOSING)
    assert holder.gated(Complete(held.lease)) == ()
    assert store.permits() == ()
