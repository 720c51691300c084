"""A store whose clock is set: no lease lasts longer than a lease because of that."""

from datetime import timedelta

import pytest
from contract.driver import LEASE, Holder, add, session_of

from limpet.domain.duration import microseconds
from limpet.domain.session import SessionState, Standing
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

STEP = timedelta(seconds=30)
SECOND = timedelta(seconds=1)


class ServerClock(FakeClock):
    """A clock that also counts leases, and can be set all the same."""

    def __init__(self) -> None:
        super().__init__()
        self._set = 0

    def boot(self) -> int:
        return super().boot() + self._set

    def set(self, by: timedelta) -> None:
        self._set += microseconds(by)


@pytest.fixture
def clock() -> ServerClock:
    return ServerClock()


def test_lease_given_before_a_step_back_ends_one_lease_after_it_was_seen(
    store: Store, clock: ServerClock
) -> None:
    add(store)
    gone, idle = Holder(store), Holder(store)
    gone.take()
    clock.set(-STEP)
    assert store.expire() == ()
    clock.advance(LEASE - SECOND)
    assert store.expire() == ()
    assert idle.renew().standing is Standing.LIVE
    clock.advance(SECOND)
    assert [each.id for each in store.expire()] == [gone.id]
    assert session_of(store, idle.id).state is SessionState.LIVE


def test_look_at_an_earlier_time_ends_nobody_and_shortens_no_lease(
    store: Store, clock: ServerClock
) -> None:
    gone, holder = Holder(store), Holder(store)
    clock.advance(LEASE / 2)
    holder.renew()
    assert store.expire(0) == ()
    clock.advance(LEASE - SECOND)
    assert store.expire(0) == ()
    assert holder.renew().standing is Standing.LIVE
    assert gone.renew().standing is Standing.PAST


def test_session_past_its_moment_by_a_step_forward_renews_if_it_says_so(
    store: Store, clock: ServerClock
) -> None:
    add(store)
    holder = Holder(store)
    clock.set(STEP)
    assert holder.claim() == ()
    assert holder.renew().standing is Standing.PAST
    assert holder.renew(stepped=True).standing is Standing.LIVE
    assert len(holder.claim()) == 1
