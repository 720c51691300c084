"""The sweeper and a store whose clock is set: nobody loses a lease by that."""

from datetime import timedelta
from pathlib import Path

import pytest

from limpet.domain.cause import Cause
from limpet.domain.duration import microseconds
from limpet.domain.errors import StoreCorrupt, StoreUnreachable
from limpet.domain.session import (
    NewSession,
    Session,
    SessionKind,
    SessionLock,
    SessionState,
    Standing,
)
from limpet.host import locks
from limpet.host.proofs import forget, proof
from limpet.maintenance.clock_watch import ClockWatch
from limpet.maintenance.sweeper import Sweeper
from limpet.storage.contract.answers import Outlook
from limpet.storage.contract.store import Store
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
        sweeper = Sweeper(store, None, proof, forget=forget)
        with pytest.raises(StoreUnreachable):
            sweeper.prove()
        sweeper.prove()
        assert store.sessions() == ()
        assert not Path(held.path).exists()
    finally:
        held.remove()


class Counting(SqliteStore):
    """A store that counts how often somebody is to be ended."""

    expired = 0

    def expire(
        self, until: int | None = None, longest: timedelta | None = None
    ) -> tuple[Session, ...]:
        self.expired += 1
        return super().expire(until, longest)


def test_sweeper_does_not_write_while_it_watches_a_long_lease_that_is_over() -> None:
    ours, theirs = FakeClock(), ServerClock()
    store = Counting("sqlite://", theirs)
    long = timedelta(minutes=10)
    new = NewSession("1" * 26, SessionKind.WORKER, "w", "h", 1, long, frozenset({"task"}))
    store.register(new)
    theirs.advance(long * 2)
    sweeper = Sweeper(store, None, lambda session: False, ours)
    for _ in range(600):
        sweeper.expire()
        ours.advance(SECOND)
        theirs.advance(SECOND)
    # Once to begin with, and not again before it may end somebody.
    assert store.expired == 1
    sweeper.expire()
    assert store.expired == 2
    assert store.sessions() == ()


class Slow(SqliteStore):
    """A store at the other end of a slow line; a verb is so many ways there and back."""

    ours = FakeClock()
    trip = timedelta(milliseconds=300)

    def outlook(self, longest: timedelta | None = None) -> Outlook:
        answer = super().outlook(longest)
        self.ours.advance(self.trip)
        return answer

    def expire(
        self, until: int | None = None, longest: timedelta | None = None
    ) -> tuple[Session, ...]:
        self.ours.advance(self.trip * 8)
        return super().expire(until, longest)


def test_line_that_is_always_slow_does_not_make_the_sweeper_begin_anew() -> None:
    theirs = ServerClock()
    store = Slow("sqlite://", theirs)
    store.ours = FakeClock()
    sweeper = Sweeper(store, None, lambda session: False, store.ours)

    def run(seconds: int) -> None:
        until = store.ours.boot() + seconds * 1_000_000
        while store.ours.boot() < until:
            before = store.ours.boot()
            sweeper.expire()
            store.ours.advance(SECOND)
            theirs.advance(timedelta(microseconds=store.ours.boot() - before))

    def register(session: str) -> None:
        worker = SessionKind.WORKER
        store.register(NewSession(session, worker, "w", "h", 1, LEASE, frozenset({"task"})))

    register("1" * 26)
    run(6)
    register("2" * 26)
    run(8)
    assert [each.id for each in store.sessions()] == ["2" * 26]
    # The second is ended in its own time, though the first was ended a moment ago.
    run(6)
    assert store.sessions() == ()


class Refuses(SqliteStore):
    """A store in which the row of one session cannot be written."""

    refused = ""

    def end(self, session: str, cause: Cause) -> bool:
        if session == self.refused:
            raise StoreCorrupt("a row")
        return super().end(session, cause)


def test_session_that_cannot_be_ended_or_looked_at_keeps_no_other_from_its_end() -> None:
    store = Refuses("sqlite://")
    ids = [str(number) * 26 for number in (1, 2, 3)]
    for name in ids:
        lock = SessionLock("/nowhere", 1, "nonce")
        tasks = frozenset({"task"})
        store.register(NewSession(name, SessionKind.WORKER, "w", "h", 1, LEASE, tasks, lock=lock))
    store.refused = ids[0]

    def proof(session: Session) -> bool:
        if session.id == ids[1]:
            raise TypeError("a row of nonsense")
        return True

    sweeper = Sweeper(store, None, proof)
    with pytest.raises(StoreCorrupt):
        sweeper.prove()
    assert {each.id for each in store.sessions()} == set(ids[:2])


@pytest.mark.parametrize(("error", "lines"), [(AttributeError("x"), 1), (OSError(), 0)])
def test_a_proof_that_fails_by_an_error_of_our_own_is_logged_once(
    caplog: pytest.LogCaptureFixture, error: Exception, lines: int
) -> None:
    store: Store = SqliteStore("sqlite://", FakeClock())
    lock = SessionLock("/nowhere", 1, "x")
    store.register(NewSession("4" * 26, SessionKind.WORKER, "w", "h", 1, LEASE, lock=lock))

    def proof(session: Session) -> bool:
        raise error

    sweeper = Sweeper(store, None, proof)
    assert [sweeper.prove(), sweeper.prove()] == [0, 0]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == lines
    assert all("AttributeError" in text for text in said)


def test_proofs_that_fail_keep_no_lease_from_its_end(scene: Scene) -> None:
    failing = Sweeper(scene.store, None, lambda session: False, scene.ours)
    failing.prove = lambda: (_ for _ in ()).throw(StoreCorrupt("a row"))  # type: ignore[method-assign]
    scene.sweeper = failing
    for _ in range(round(LEASE / SECOND) + 2):
        scene.ours.advance(SECOND)
        scene.theirs.advance(SECOND)
        with pytest.raises(StoreCorrupt):
            failing.sweep()
    assert scene.state() is SessionState.DEAD
