"""Sessions with leases of different lengths: the length of one never delays the end of another.

A sweeper ends a session whose lease is over once it has watched the store, by a clock that nobody
set meanwhile, for as long as that session's own lease.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from contract.driver import KILLED, Holder, add, session_of, state

from limpet.domain.duration import microseconds
from limpet.domain.session import SessionState, Standing
from limpet.domain.state import State
from limpet.maintenance.sweeper import Sweeper
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

SHORT, LONG = timedelta(seconds=5), timedelta(minutes=10)
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


class Fleet:
    """Workers on one store, and the sweeper of another host; time passes for all of them alike."""

    def __init__(self, store: Store, clock: ServerClock) -> None:
        self.store = store
        self.theirs = clock
        self.ours = FakeClock()
        self.sweeper = self.new_sweeper()
        self.living: list[Holder] = []

    def new_sweeper(self) -> Sweeper:
        return Sweeper(self.store, None, lambda session: False, self.ours)

    def join(self, lease: timedelta) -> Holder:
        """A worker that holds a job, and renews from now on."""
        add(self.store)
        holder = Holder(self.store, lease=lease)
        holder.take()
        self.living.append(holder)
        return holder

    def leave(self, holder: Holder) -> None:
        """The worker vanishes with its host: nothing is proved, nothing is told."""
        self.living.remove(holder)

    def sweep(self) -> int:
        self.sweeper.prove()
        return self.sweeper.expire()

    def run(self, time: timedelta) -> int:
        """Let time pass, swept every second; the answer is how many jobs were taken back."""
        count = 0
        for _ in range(round(time / SECOND)):
            self.ours.advance(SECOND)
            self.theirs.advance(SECOND)
            for holder in self.living:
                if holder.renew().standing is Standing.PAST:
                    holder.renew(stepped=True)
            count += self.sweep()
        return count

    def is_dead(self, holder: Holder) -> bool:
        return session_of(self.store, holder.id).state is SessionState.DEAD


@pytest.fixture
def fleet(store: Store, clock: ServerClock) -> Iterator[Fleet]:
    made = Fleet(store, clock)
    yield made
    assert not any(made.is_dead(each) for each in made.living), "one that renewed was ended"


def test_short_lease_ends_in_its_own_time_beside_an_idle_worker_with_a_long_one(
    fleet: Fleet,
) -> None:
    fleet.join(LONG)
    short = fleet.join(SHORT)
    fleet.run(SHORT + SECOND)
    (held,) = fleet.store.held(short.id)
    fleet.leave(short)
    assert fleet.run(SHORT - SECOND) == 0
    assert not fleet.is_dead(short)
    assert fleet.run(SECOND) == 1
    assert fleet.is_dead(short)
    assert state(fleet.store, held.job) is State.READY


def test_long_lease_is_watched_for_its_own_length_whatever_was_ended_before(fleet: Fleet) -> None:
    long, short = fleet.join(LONG), fleet.join(SHORT)
    fleet.leave(long)
    fleet.run(LONG - SECOND)
    # A sweeper that has not watched for so long leaves it alone, and ends the short one.
    fleet.leave(short)
    fleet.sweeper = fleet.new_sweeper()
    assert fleet.run(SHORT + SECOND) == 1
    assert fleet.is_dead(short)
    assert fleet.run(LONG - SHORT - SECOND) == 0
    assert not fleet.is_dead(long)
    assert fleet.run(2 * SECOND) == 1
    assert fleet.is_dead(long)


def test_sweeper_that_has_just_begun_ends_nobody_before_it_has_watched_for_that_lease(
    fleet: Fleet,
) -> None:
    fleet.join(LONG)
    short = fleet.join(SHORT)
    fleet.leave(short)
    fleet.ours.advance(LONG)
    fleet.theirs.advance(SHORT * 3)
    fleet.sweeper = fleet.new_sweeper()
    assert fleet.sweep() == 0
    assert fleet.run(SHORT - SECOND) == 0
    assert fleet.run(SECOND) == 1


@pytest.mark.parametrize("step", [30, -30, 3600, -3600], ids=lambda step: f"{step} s")
def test_after_a_step_of_the_clock_each_has_one_lease_of_its_own(fleet: Fleet, step: int) -> None:
    long, short = fleet.join(LONG), fleet.join(SHORT)
    fleet.run(SHORT * 2)
    fleet.leave(long)
    fleet.leave(short)
    fleet.theirs.set(timedelta(seconds=step))
    fleet.sweep()
    assert fleet.run(SHORT - SECOND) == 0
    assert not fleet.is_dead(short)
    assert fleet.run(2 * SECOND) == 1
    assert fleet.is_dead(short)
    assert fleet.run(LONG - SHORT - 2 * SECOND) == 0
    assert not fleet.is_dead(long)
    assert fleet.run(2 * SECOND) == 1
    assert fleet.is_dead(long)


def test_after_an_outage_each_has_one_lease_of_its_own(fleet: Fleet) -> None:
    fleet.join(LONG)
    short = fleet.join(SHORT)
    fleet.run(SHORT * 2)
    fleet.leave(short)
    fleet.ours.advance(SHORT)
    fleet.theirs.advance(SHORT)
    fleet.sweeper.lost_sight()
    assert fleet.run(SHORT) == 0
    assert fleet.run(SECOND) == 1


def test_workers_that_join_and_leave_are_ended_in_their_own_time(fleet: Fleet) -> None:
    fleet.run(SHORT)
    for lease in (SHORT, LONG, SHORT * 2):
        joined = [fleet.join(lease), fleet.join(SHORT)]
        fleet.run(SHORT * 2)
        for holder in joined:
            if holder.new.lease < LONG:
                fleet.leave(holder)
        assert fleet.run(SHORT) == len([each for each in joined if each.new.lease == SHORT])
    fleet.run(SHORT * 2)
    assert [each.new.lease for each in fleet.living] == [LONG]


def test_jobs_of_a_session_that_is_dead_already_are_not_watched_at_all(fleet: Fleet) -> None:
    fleet.join(LONG)
    short = fleet.join(SHORT)
    fleet.leave(short)
    fleet.store.end(short.id, KILLED)
    fleet.sweeper = fleet.new_sweeper()
    assert fleet.sweep() == 1


def test_outlook_tells_of_no_lease_that_is_longer_than_what_was_asked_for(
    store: Store, clock: ServerClock
) -> None:
    long = Holder(store, lease=LONG)
    clock.advance(LONG - SECOND)
    short = Holder(store, lease=SHORT)
    clock.advance(LONG)
    assert store.outlook(longest=timedelta(0)).next_moment is None
    assert store.outlook(longest=SHORT - SECOND).next_moment is None
    assert store.outlook(longest=SHORT).next_moment == short.registered.moment
    assert store.outlook(longest=LONG).next_moment == long.registered.moment
    assert store.outlook().next_moment == long.registered.moment


def test_expire_leaves_leases_alone_that_are_longer_than_what_was_asked_for(
    store: Store, clock: ServerClock
) -> None:
    long, short = Holder(store, lease=LONG), Holder(store, lease=SHORT)
    clock.advance(LONG * 2)
    store.expire(longest=SHORT - SECOND)
    assert {each.id for each in store.sessions()} == {long.id, short.id}
    store.expire(longest=SHORT)
    assert [each.id for each in store.sessions()] == [long.id]
    store.expire(longest=LONG)
    assert store.sessions() == ()
    assert session_of(store, short.id).state is SessionState.DEAD
