"""The store against a small pure model, through thousands of random steps.

`LIMPET_MODEL_SEED=n` takes other steps than the usual ones.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from contract.choices import (
    ANY,
    DELAYS,
    KNOWN,
    LEASE,
    LEASES,
    MAKE,
    OUTCOMES,
    PASSES,
    QUEUES,
    ROOM,
    SLOTS,
    TASKS,
)
from contract.driver import BACKENDS, HOOK, KILLED, SECOND, new_id
from contract.model import Model, Refused
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from limpet.domain.cause import Drained
from limpet.domain.duration import microseconds
from limpet.domain.errors import LimpetError
from limpet.domain.job import JobFilter, NewJob
from limpet.domain.lease import Lease, digest
from limpet.domain.queue import DEFAULT_RETENTION
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.state import FINAL, State
from limpet.domain.transition import Orphan, Rejected, Settlement
from limpet.storage.base import ANY_QUEUE, Pool, Want
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock

RUNS, STEPS = 200, 50
LEAST_STEPS = 5_000
BACKEND = "sqlite-memory"

_steps_taken = 0


class Machine(RuleBasedStateMachine):
    """Says the same to the store and to the model, and compares what they answer and have."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = open_store(BACKENDS[BACKEND](None), self.clock)  # type: ignore[arg-type]
        self.model = Model(self.clock.wall, self.clock.boot)
        self.asked: list[NewJob] = []
        self.sessions: list[str] = []
        self.digests: dict[str, str] = {}
        self.given: list[Lease] = []
        self.begin_session(("a", "b", "c"))

    def teardown(self) -> None:
        self.store.close()

    # -- choosing

    def session(self, pick: int) -> str:
        """One that lives, mostly; now and then any that ever was."""
        if pick % 7 == 3:
            return self.sessions[pick % len(self.sessions)]
        living = [each for each in self.sessions[-5:] if self._lives(each)]
        if not living:
            self.begin_session(("a", "b"))
            living = self.sessions[-1:]
        busy = [each for each in living if self.model.held(each)]
        some = busy if busy and pick % 3 else living
        return some[pick % len(some)]

    def _lives(self, session: str) -> bool:
        return session in self.model.sessions and self.model.standing(session) == "live"

    def job(self, pick: int) -> str:
        """One that is there, mostly; now and then any that was ever asked for, or none."""
        some = [job.id for job in self.asked] if pick % 7 == 3 else list(self.model.jobs)
        return some[pick % len(some)] if some else new_id()

    def lease(self, session: str, pick: int, which: str) -> Lease | None:
        """A lease to talk about, or None where the session has none."""
        held = self.model.held(session)
        some = self.given if which == "given" else held
        if not some:
            return None
        lease = some[pick % len(some)]
        match which:
            case "token":
                return lease._replace(token=lease.token + (1 if pick % 2 else -1))
            case "session":
                return lease._replace(session=self.sessions[pick % len(self.sessions)])
            case "nowhere":
                return lease._replace(job=new_id())
            case _:
                return lease

    def leases(self, session: str, picks: list[tuple[int, str]]) -> list[Lease]:
        found = [self.lease(session, pick, which) for pick, which in picks]
        return [lease for lease in found if lease is not None]

    def settlements(
        self, session: str, outcomes: list[tuple[int, str, str, int]]
    ) -> list[Settlement]:
        made = []
        for pick, which, kind, delay in outcomes:
            for lease in self.leases(session, [(pick, which)]):
                made.append(MAKE[kind](lease, self.clock.wall() + delay * SECOND))
        return made

    def both(self, real: Callable[[], Any], modelled: Callable[[], Any]) -> tuple[Any, Any]:
        """Do both; an error of the store must be the one that the model names."""
        answers: list[Any] = []
        errors: list[str] = []
        said = ""
        for ask in (real, modelled):
            try:
                answers.append(ask())
                errors.append("")
            except LimpetError as error:
                answers.append(None)
                errors.append(type(error).__name__)
                said = f"{error}"
            except Refused as refused:
                answers.append(None)
                errors.append(str(refused))
        assert errors[0] == errors[1], said
        return answers[0], answers[1]

    # -- enqueue

    @rule(
        task=st.sampled_from(["a", "a", "b", "b", "c", "d"]),
        queue=st.sampled_from(QUEUES),
        priority=st.sampled_from([0, 0, 0, 1, -1, 5]),
        delay=DELAYS,
        expires=DELAYS,
        deadline=DELAYS,
        hook=st.booleans(),
    )
    def enqueue(
        self,
        task: str,
        queue: str,
        priority: int,
        delay: int | None,
        expires: int | None,
        deadline: int | None,
        hook: bool,
    ) -> None:
        now = self.clock.wall()
        at = [None if each is None else now + each * SECOND for each in (delay, expires, deadline)]
        job = NewJob(
            id=new_id(), task=task, args="{}", queue=queue, priority=priority,
            options=HOOK if hook else "{}",
            scheduled_for=at[0], expires_at=at[1], deadline_at=at[2],
        )  # fmt: skip
        self.asked.append(job)
        self._enqueue([job])

    @rule(number=st.integers(1, 4), queue=st.sampled_from(QUEUES))
    def enqueue_many(self, number: int, queue: str) -> None:
        jobs = [NewJob(new_id(), TASKS[n % 2], "{}", queue) for n in range(number)]
        self.asked += jobs
        self._enqueue([*jobs, self.asked[0]])

    @rule(pick=ANY)
    def enqueue_again(self, pick: int) -> None:
        if self.asked:
            self._enqueue([self.asked[pick % len(self.asked)]])

    def _enqueue(self, jobs: list[NewJob]) -> None:
        # An id that comes twice in one call has one receipt, that of the first.
        jobs = list({job.id: job for job in jobs}.values())
        receipts = self.store.enqueue(jobs)
        assert [(each.outcome, each.state) for each in receipts] == self.model.enqueue(jobs)

    # -- hold

    @rule(tasks=KNOWN)
    def begin_session(self, tasks: tuple[str, ...]) -> None:
        self.sessions.append(new_id())
        self._register(self.sessions[-1], tasks)

    @rule(pick=ANY)
    def register_again(self, pick: int) -> None:
        session = self.session(pick)
        if session in self.model.sessions:
            self._register(session, tuple(self.model.sessions[session].tasks))

    def _register(self, session: str, tasks: tuple[str, ...]) -> None:
        known = frozenset(tasks)
        new = NewSession(session, SessionKind.WORKER, "w", "h", 1, LEASE, known)
        answer, moment = self.both(
            lambda: self.store.register(new),
            lambda: self.model.register(session, known, microseconds(LEASE)),
        )
        if answer is not None:
            assert answer.moment == moment
            self.digests[session] = answer.tasks

    @rule(pick=ANY, outcomes=OUTCOMES, slots=SLOTS, room=ROOM, alone=ROOM, begun=LEASES)
    def exchange(
        self,
        pick: int,
        outcomes: list[tuple[int, str, str, int]],
        slots: dict[str, int],
        room: int,
        alone: int,
        begun: list[tuple[int, str]],
    ) -> None:
        session = self.session(pick)
        settlements = self.settlements(session, outcomes)
        last = self.model.sessions[session].seq if session in self.model.sessions else 0
        pool = Pool(self.digests[session], slots, room, min(room, alone))
        self._exchange(session, last + 1, settlements, pool, self.leases(session, begun))

    @rule(times=st.integers(1, 11), alone=st.booleans())
    def lose_again_and_again(self, times: int, alone: bool) -> None:
        """One worker after the other is lost with all it holds, or one process after the other."""
        for _ in range(times):
            self.begin_session(("a", "b"))
            session = self.sessions[-1]
            pool = Pool(self.digests[session], {ANY_QUEUE: 2}, 2, 2)
            self._exchange(session, 1, (), pool, ())
            held = self.model.held(session)
            if alone:
                lost = [Orphan(lease, KILLED, begun=True, alone=True) for lease in held]
                self._exchange(session, 2, lost, replace(pool, total=0), ())
            self._renew(session, held, draining=False)
            self._end(session, charged=True)
            self._recover(session)

    @rule(pick=ANY, outcomes=OUTCOMES, off=st.sampled_from([0, 0, 0, 0, -1, 2]))
    def exchange_out_of_turn(
        self, pick: int, outcomes: list[tuple[int, str, str, int]], off: int
    ) -> None:
        session = self.session(pick)
        last = self.model.sessions[session].seq if session in self.model.sessions else 0
        settlements = self.settlements(session, outcomes)
        pool = Pool(self.digests[session], {ANY_QUEUE: 5}, 5)
        self._exchange(session, last + off, settlements, pool, ())

    def _exchange(
        self,
        session: str,
        seq: int,
        settlements: Sequence[Settlement],
        pool: Pool,
        begun: Sequence[Lease],
    ) -> None:
        answer, modelled = self.both(
            lambda: self.store.exchange(session, seq, settlements, Want((pool,)), begun),
            lambda: self.model.exchange(session, seq, settlements, pool, begun),
        )
        if answer is not None:
            standing, rejected, claimed = modelled
            assert answer.standing == standing
            assert list(answer.rejected) == [Rejected(*each) for each in rejected]
            assert [each.lease for each in answer.claimed] == claimed
            self.given += claimed

    @rule(pick=ANY, begun=LEASES, draining=st.sampled_from([False] * 7 + [True]))
    def renew(self, pick: int, begun: list[tuple[int, str]], draining: bool) -> None:
        session = self.session(pick)
        self._renew(session, self.leases(session, begun), draining)

    def _renew(self, session: str, leases: list[Lease], draining: bool) -> None:
        answer, _ = self.both(
            lambda: self.store.renew(session, leases, draining),
            lambda: self.model.renew(session, leases, draining),
        )
        if answer is not None:
            held = self.model.held(session)
            assert answer.standing == self.model.standing(session)
            assert answer.digest == digest((lease.job, lease.token) for lease in held)
            assert set(self.store.held(session)) == set(held)
            asked = {each for each in held if self.model.jobs[each.job].cancel_requested}
            assert set(answer.cancels) == asked
            assert set(answer.paused) == self.model.paused

    @rule(pick=ANY, picks=LEASES)
    def release(self, pick: int, picks: list[tuple[int, str]]) -> None:
        session = self.session(pick)
        leases = list(dict.fromkeys(self.leases(session, picks)))
        rejected = self.store.release(session, leases, Drained())
        assert list(rejected) == [Rejected(*each) for each in self.model.release(session, leases)]

    @rule(pick=ANY, charged=st.booleans())
    def end(self, pick: int, charged: bool) -> None:
        self._end(self.session(pick), charged)

    def _end(self, session: str, charged: bool) -> None:
        cause = KILLED if charged else Drained()
        assert self.store.end(session, cause) is self.model.end(session, charged=charged)

    # -- sweep

    @rule()
    def expire(self) -> None:
        assert {each.id for each in self.store.expire()} == self.model.expire()

    @rule()
    def sweep(self) -> None:
        self.expire()
        for session in self.sessions:
            self._recover(session)

    @rule(pick=ANY)
    def recover(self, pick: int) -> None:
        self._recover(self.sessions[pick % len(self.sessions)])

    def _recover(self, session: str) -> None:
        answer, went = self.store.recover(session), self.model.recover(session)
        assert (answer.ready, answer.failed, answer.cancelled) == tuple(
            went.get(state, 0) for state in (State.READY, State.FAILED, State.CANCELLED)
        )

    @rule()
    def prune(self) -> None:
        answer = self.store.prune(DEFAULT_RETENTION)
        assert (answer.jobs, answer.sessions) == self.model.prune()

    @rule(seconds=PASSES, renew=st.booleans(), promote=st.booleans())
    def let_time_pass(self, seconds: float, renew: bool, promote: bool) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        if renew and self._lives(self.sessions[-1]):
            self._renew(self.sessions[-1], [], draining=False)
        if promote:
            answer = self.store.promote()
            assert (answer.ready, answer.lapsed) == self.model.promote()

    @rule(hours=st.sampled_from([1, -1]))
    def step_the_wall_clock(self, hours: int) -> None:
        self.clock.step_wall(timedelta(hours=hours))

    # -- control

    @rule(pick=ANY)
    def cancel(self, pick: int) -> None:
        job = self.job(pick)
        answer, state = self.both(lambda: self.store.cancel(job), lambda: self.model.cancel(job))
        assert answer == state

    @rule(pick=ANY, off=st.sampled_from([0, 0, 0, -1, 1]))
    def retry(self, pick: int, off: int) -> None:
        job = self.job(pick)
        seen = (self.model.jobs[job].round if job in self.model.jobs else 1) + off
        answer, round_ = self.both(
            lambda: self.store.retry(job, seen), lambda: self.model.retry(job, seen)
        )
        assert answer == round_

    @rule(queue=st.sampled_from(QUEUES), paused=st.sampled_from([True, False, False]))
    def pause(self, queue: str, paused: bool) -> None:
        self.store.pause(queue, paused)
        (self.model.paused.add if paused else self.model.paused.discard)(queue)

    # -- after every step

    @invariant()
    def store_is_sound(self) -> None:
        global _steps_taken
        _steps_taken += 1
        assert self.store.invariants() == ()

    @invariant()
    def jobs_are_the_same(self) -> None:
        jobs = self.store.jobs(JobFilter(), limit=1_000).jobs
        assert {job.id for job in jobs} == set(self.model.jobs)
        for job in jobs:
            kept = self.model.jobs[job.id]
            real = [job.state, job.token, job.round, *job.counters, job.ready_at, job.finished_at]
            modelled = [
                kept.state, kept.token, kept.round, kept.failures, kept.orphans, kept.strikes,
                kept.ready_at, kept.finished,
            ]  # fmt: skip
            if job.state not in FINAL:
                real += [job.suspect, job.last_run, job.cancel_requested_at is not None]
                modelled += [kept.suspect, kept.last_run, kept.cancel_requested]
            assert real == modelled, job.id
            if job.state is State.RUNNING:
                assert (job.session, job.begun) == (kept.holder, kept.begun), job.id

    @invariant()
    def sessions_are_the_same(self) -> None:
        real = {
            each.id: (each.state, each.moment, each.seq, each.holds)
            for each in self.store.sessions(with_dead=True)
        }
        assert real == {
            id_: (each.state, each.moment, each.seq, len(self.model.held(id_)))
            for id_, each in self.model.sessions.items()
        }

    @invariant()
    def queues_are_the_same(self) -> None:
        real = {
            (view.name, state): count
            for view in self.store.queues()
            for state, count in view.counts.items()
        }
        assert real == self.model.counts()


def test_store_does_what_the_model_does() -> None:
    machine = Machine
    if "LIMPET_MODEL_SEED" in os.environ:
        machine = seed(int(os.environ["LIMPET_MODEL_SEED"]))(Machine)
    # The same steps on every machine, however slow: a run that fails, fails for everyone.
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert _steps_taken >= LEAST_STEPS
