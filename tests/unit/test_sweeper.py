"""The sweeper and a store whose clock is set: nobody loses a lease by that."""

from datetime import timedelta
from pathlib import Path

import pytest

from limpet.domain.cause import Cause
from limpet.domain.duration import microseconds
from limpet.domain.errors import StoreUnreachable
from limpet.domain.session import NewSession, SessionKind, SessionLock, SessionState, Standing
from limpet.host import locks
from limpet.host.neighbours import forget, proof
from limpet.maintenance.clock_watch import ClockWatch
from limpet.maintenance.sweeper import Sweeper
from limpet.storage.answers import Outlook
from limpet.storage.base import Store
from limpet.storage.sqlite.store import SqliteStore
from limpet.testing.clock import FakeClock

LEASE = timedelta(seconds=10)
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


class Scene:
    """A store, a session, and a sweeper elsewhere; time passes for the store and for us alike."""

    def __init__(self) -> None:
        self.ours, self.theirs = FakeClock(), ServerClock()
        self.store: Store = SqliteStore("sqlite://", self.theirs)
        new = NewSession("1" * 26, SessionKind.WORKER, "w", "h", 1, LEASE, frozenset({"task"}))
        self.session = new.id
        self.store.register(new)
        self.sweeper = Sweeper(self.store, None, lambda session: False, self.ours)

    def pass_(self, time: timedelta, *, renew: bool) -> None:
        """Let time pass, swept every second; the session renews as often, or is silent."""
        for _ in range(round(time / SECOND)):
            self.ours.advance(SECOND)
            self.theirs.advance(SECOND)
            if renew:
                answer = self.store.renew(self.session)
                if answer.standing is Standing.PAST:
                    self.store.renew(self.session, stepped=True)
            self.sweeper.prove()
            self.sweeper.expire()

    def state(self) -> SessionState:
        (found,) = self.store.sessions(with_dead=True)
        return found.state


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.pass_(LEASE * 2, renew=True)
    return made


def test_a_silent_session_is_ended_after_its_lease(scene: Scene) -> None:
    scene.pass_(LEASE - SECOND, renew=False)
    assert scene.state() is SessionState.LIVE
    scene.pass_(SECOND * 2, renew=False)
    assert scene.state() is SessionState.DEAD


@pytest.mark.parametrize("step", [30, 3600, 9, 1], ids=lambda step: f"{step} s")
def test_a_step_forward_ends_nobody_who_renews(scene: Scene, step: int) -> None:
    scene.theirs.set(timedelta(seconds=step))
    scene.sweeper.prove()
    assert scene.sweeper.expire() == 0
    assert scene.state() is SessionState.LIVE
    scene.pass_(LEASE * 3, renew=True)
    assert scene.state() is SessionState.LIVE


def test_a_step_between_the_look_and_the_word_ends_nobody(scene: Scene) -> None:
    view = scene.store.outlook()
    scene.theirs.set(timedelta(seconds=30))
    scene.store.expire(view.now)
    assert scene.state() is SessionState.LIVE


def test_who_is_silent_after_a_step_is_ended_one_lease_later(scene: Scene) -> None:
    scene.theirs.set(timedelta(seconds=30))
    scene.pass_(LEASE, renew=False)
    assert scene.state() is SessionState.LIVE
    scene.pass_(SECOND * 2, renew=False)
    assert scene.state() is SessionState.DEAD


def test_a_step_back_ends_nobody_and_a_renewal_counts_from_then_on(scene: Scene) -> None:
    scene.theirs.set(timedelta(seconds=-30))
    scene.pass_(LEASE * 2, renew=True)
    assert scene.state() is SessionState.LIVE
    scene.pass_(LEASE + SECOND, renew=False)
    assert scene.state() is SessionState.DEAD


def test_another_server_with_the_same_time_is_another_clock() -> None:
    watch = ClockWatch()
    here = Outlook(1_000_000, "first", None, widowed=False)
    there = Outlook(1_000_100, "second", None, widowed=False)
    assert [watch.is_steady(here, 0, 10), watch.is_steady(here, 0, 10)] == [False, True]
    assert not watch.is_steady(there, 100, 110)
    assert watch.is_steady(there, 100, 110)


def test_a_slow_answer_is_no_step() -> None:
    watch = ClockWatch()
    watch.is_steady(Outlook(5_000_000, "c", None, widowed=False), 0, 10)
    # Read three seconds later, at some moment of the three seconds that the answer took.
    assert watch.is_steady(Outlook(8_500_000, "c", None, widowed=False), 3_000_000, 6_000_000)


def test_a_lease_of_before_a_step_back_ends_one_lease_after_it(scene: Scene) -> None:
    scene.theirs.set(timedelta(seconds=-30))
    scene.pass_(LEASE, renew=False)
    assert scene.state() is SessionState.LIVE
    scene.pass_(SECOND * 2, renew=False)
    assert scene.state() is SessionState.DEAD


def test_a_lease_of_before_a_step_back_that_nobody_saw_ends_one_lease_after_the_start(
    scene: Scene,
) -> None:
    scene.theirs.set(timedelta(seconds=-30))
    scene.sweeper = Sweeper(scene.store, None, lambda session: False, scene.ours)
    scene.pass_(LEASE, renew=False)
    assert scene.state() is SessionState.LIVE
    scene.pass_(SECOND * 2, renew=False)
    assert scene.state() is SessionState.DEAD


class CannotEnd(SqliteStore):
    """A store that is out of reach at the very moment at which a death is to be told."""

    outages = 1

    def end(self, session: str, cause: Cause) -> bool:
        if self.outages:
            self.outages -= 1
            raise StoreUnreachable("cut")
        return super().end(session, cause)


def test_a_proof_that_could_not_be_told_can_be_found_again() -> None:
    store = CannotEnd("sqlite://")
    held = locks.take(name := "2" * 26)
    try:
        lock = SessionLock(held.path, held.inode, held.nonce)
        tasks = frozenset({"task"})
        store.register(NewSession(name, SessionKind.WORKER, "w", "h", 1, LEASE, tasks, lock=lock))
        held.let_go()
        sweeper = Sweeper(store, None, proof, told=forget)
        with pytest.raises(StoreUnreachable):
            sweeper.prove()
        sweeper.prove()
        assert store.sessions() == ()
        assert not Path(held.path).exists()
    finally:
        held.remove()
