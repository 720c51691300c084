"""A reply that is lost strands nothing: whoever heard nothing says it again.

The shim stands between a worker and the real store. It lets each call through and loses the reply
of one of them; the caller then repeats the call, as the contract allows.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from contract.driver import BOOM, KILLED, LEASE, SECOND, Holder, get, new_id, new_job

from limpet.domain.cause import Drained
from limpet.domain.errors import StoreUnavailable
from limpet.domain.job import Counters, LogLine, Progress, Report
from limpet.domain.lease import digest
from limpet.domain.queue import DEFAULT_RETENTION
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, RetryAt
from limpet.storage.contract.store import ANY_QUEUE, Pool, Store, Want
from limpet.testing.clock import FakeClock

T = TypeVar("T")


class LossyStore:
    """The real store behind a line that loses the reply of the call at one position."""

    def __init__(self, store: Store, lose: int) -> None:
        self._store = store
        self._lose = lose
        self.calls: list[str] = []

    def say(self, verb: Callable[..., T], *given: Any, **named: Any) -> T:
        """Do the verb; its reply may not arrive."""
        self.calls.append(verb.__name__)
        answer = verb(*given, **named)
        if len(self.calls) == self._lose:
            raise StoreUnavailable("the reply was lost")
        return answer

    def until_heard(self, verb: Callable[..., T], *given: Any, **named: Any) -> T:
        """Say it, and say the same again if nothing was heard."""
        try:
            return self.say(verb, *given, **named)
        except StoreUnavailable:
            return self.say(verb, *given, **named)


class Life:
    """One job's full life, through every verb; each step checks what the worker relies on."""

    def __init__(self, store: Store, clock: FakeClock, lose: int) -> None:
        self.store = store
        self.clock = clock
        self.line = LossyStore(store, lose)
        self.job = new_job(scheduled_for=clock.wall() + SECOND)

    def register(self) -> tuple[str, Want]:
        new = NewSession(new_id(), SessionKind.WORKER, "w", "h", 1, LEASE, frozenset({"task"}))
        registered = self.line.until_heard(self.store.register, new)
        return new.id, Want((Pool(registered.tasks, {ANY_QUEUE: 5}, 5, 1),))

    def sound(self, session: str) -> None:
        """What the store thinks the session holds is in its digest, and the rules hold."""
        held = self.store.held(session)
        real = digest((lease.job, lease.token) for lease in held)
        assert self.store.renew(session).digest == real
        assert self.store.invariants() == ()

    def run(self) -> None:
        self._enqueue_and_promote()
        self._first_holder_fails_and_hands_back()
        self._second_holder_vanishes()
        self._third_holder_succeeds()
        self._a_person_steps_in()
        self._prune()

    def _enqueue_and_promote(self) -> None:
        self.line.until_heard(self.store.enqueue, [self.job])
        self.clock.advance(timedelta(seconds=1))
        self.line.until_heard(self.store.promote)
        assert get(self.store, self.job.id).state is State.READY

    def _first_holder_fails_and_hands_back(self) -> None:
        say, store = self.line.until_heard, self.store
        session, want = self.register()
        answer = say(store.exchange, session, 1, (), want)
        (lease,) = (each.lease for each in answer.claimed)
        assert store.held(session) == (lease,)
        say(store.renew, session, [lease])
        report = Report(lease, Progress(1, 2, "half", 3), (LogLine(0, "info", "x"),))
        assert say(store.report, session, [report]) == ()
        retry = RetryAt(lease, self.clock.wall(), BOOM)
        assert say(store.exchange, session, 2, [retry], want).rejected == ()
        assert get(store, lease.job).counters == Counters(failures=1)
        say(store.promote)
        (again,) = (each.lease for each in say(store.exchange, session, 3, (), want).claimed)
        for rejected in say(store.release, session, [again], Drained()):
            assert rejected.answer == "already"
        self.sound(session)
        say(store.end, session, Drained())

    def _second_holder_vanishes(self) -> None:
        say, store = self.line.until_heard, self.store
        session, want = self.register()
        (lease,) = (each.lease for each in say(store.exchange, session, 1, (), want).claimed)
        say(store.renew, session, [lease])
        self.clock.advance(LEASE)
        assert [each.id for each in say(store.expire)] == [session]
        say(store.recover, session)
        assert store.held(session) == ()
        assert get(store, lease.job).counters == Counters(failures=1, orphans=1)

    def _third_holder_succeeds(self) -> None:
        say, store = self.line.until_heard, self.store
        session, want = self.register()
        (lease,) = (each.lease for each in say(store.exchange, session, 1, (), want).claimed)
        settled = say(store.exchange, session, 2, [Complete(lease, "1")], want)
        assert (settled.rejected, settled.claimed) == ((), ())
        self.sound(session)

    def _a_person_steps_in(self) -> None:
        say, store, job = self.line.until_heard, self.store, self.job.id
        assert say(store.retry, job, 1) == 2
        assert say(store.cancel, job) is State.CANCELLED
        assert say(store.retry, job, 2) == 3
        session, want = self.register()
        (lease,) = (each.lease for each in say(store.exchange, session, 1, (), want).claimed)
        assert say(store.cancel, job) is State.RUNNING
        assert say(store.exchange, session, 2, [Fail(lease, BOOM)]).rejected == ()
        say(store.pause, "default")
        say(store.pause, "default", paused=False)
        self.sound(session)

    def _prune(self) -> None:
        kept = get(self.store, self.job.id)
        assert (kept.state, kept.round, kept.token) == (State.FAILED, 3, 5)
        moves = {each.move: each.count for each in self.store.totals()}
        assert moves == {
            "enqueue": 1, "promote": 2, "claim": 5, "retry": 1, "release": 1, "recover": 1,
            "complete": 1, "reopen": 2, "cancel": 1, "fail": 1,
        }  # fmt: skip
        assert self.store.invariants() == ()
        self.clock.advance(timedelta(days=40))
        self.line.until_heard(self.store.prune, DEFAULT_RETENTION)
        assert self.store.job(self.job.id) is None


_CALLS = 29


def test_life_without_a_loss_takes_as_many_calls_as_are_lost_in_turn(
    store: Store, clock: FakeClock
) -> None:
    life = Life(store, clock, lose=0)
    life.run()
    assert len(life.line.calls) == _CALLS
    verbs = {"register", "enqueue", "exchange", "renew", "report", "release", "cancel", "retry"}
    assert set(life.line.calls) == verbs | {"end", "expire", "recover", "promote", "prune", "pause"}


@pytest.mark.parametrize("lose", range(1, _CALLS + 1))
def test_lost_reply_strands_nothing(store: Store, clock: FakeClock, lose: int) -> None:
    life = Life(store, clock, lose)
    life.run()
    assert len(life.line.calls) == _CALLS + 1


def test_answer_lost_for_good_leaves_jobs_that_can_be_handed_back(
    store: Store, clock: FakeClock
) -> None:
    holder = Holder(store)
    job = new_job()
    store.enqueue([job])
    line = LossyStore(store, lose=1)
    with pytest.raises(StoreUnavailable):
        line.say(store.exchange, holder.id, 1, (), holder.want())
    renewed = holder.renew()
    assert renewed.digest.count == 1
    assert renewed.seq == 1
    assert store.release(holder.id, store.held(holder.id), Drained()) == ()
    assert store.exchange(holder.id, 1, (), holder.want()).claimed == ()
    assert get(store, job.id).state is State.READY


def test_dead_worker_that_never_heard_of_its_claim_leaves_no_orphan(
    store: Store, clock: FakeClock
) -> None:
    holder = Holder(store)
    job = new_job()
    store.enqueue([job])
    with pytest.raises(StoreUnavailable):
        LossyStore(store, lose=1).say(store.exchange, holder.id, 1, (), holder.want())
    holder.vanish(KILLED)
    kept = get(store, job.id)
    assert (kept.state, kept.counters) == (State.READY, Counters())
