"""The store and the model side by side: both are asked the same, and must answer the same."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from contract.choices import LEASE, MAKE, Outcome, Pick
from contract.driver import BACKENDS, KILLED, SECOND, new_id
from contract.model import Model, Refused
from contract.opened import opened

from limpet.domain.cause import Drained
from limpet.domain.duration import microseconds
from limpet.domain.errors import LimpetError
from limpet.domain.job import JobFilter, NewJob
from limpet.domain.lease import Lease, digest
from limpet.domain.queue import DEFAULT_RETENTION, QueueRules
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.state import FINAL, State
from limpet.domain.transition import Rejected, Settlement
from limpet.storage.contract.store import Pool, Want
from limpet.storage.records.texts import reason_of
from limpet.testing.clock import FakeClock

# Of the sessions in turn; most have the usual one.
LEASES = (LEASE, LEASE, LEASE * 3)


class Pair:
    """Says everything twice; what is chosen by a number depends on the model alone."""

    def __init__(self, backend: str, folder: Path) -> None:
        self.clock = FakeClock()
        self._stack = ExitStack()
        self.store = self._stack.enter_context(opened(BACKENDS[backend](folder), self.clock))
        self.model = Model(self.clock.wall, self.clock.boot)
        self.asked: list[NewJob] = []
        self.sessions: list[str] = []
        self.digests: dict[str, str] = {}
        self.given: list[Lease] = []

    def close(self) -> None:
        self._stack.close()

    # -- choosing

    def session(self, pick: int) -> str:
        """One that lives, mostly, and mostly one with work; now and then any that ever was."""
        if self.sessions and pick % 11 == 5:
            return self.sessions[pick % len(self.sessions)]
        living = [each for each in self.sessions[-5:] if self.lives(each)]
        if not living:
            return self.begin(("a", "b"))
        busy = [each for each in living if self.model.held(each)]
        some = busy if busy and pick % 4 else living
        return some[pick % len(some)]

    def lives(self, session: str) -> bool:
        return session in self.model.sessions and self.model.standing(session) == "live"

    def job(self, pick: int) -> str:
        """One that is there, mostly; now and then any that was ever asked for, or none."""
        some = [job.id for job in self.asked] if pick % 7 == 3 else list(self.model.jobs)
        return some[pick % len(some)] if some else new_id()

    def leases(self, session: str, picks: Sequence[Pick]) -> list[Lease]:
        """Leases to talk about; none where the session has none."""
        found = []
        for pick, which in picks:
            some = self.given if which == "given" else self.model.held(session)
            if some:
                found.append(self._made_up(some[pick % len(some)], pick, which))
        return found

    def _made_up(self, lease: Lease, pick: int, which: str) -> Lease:
        match which:
            case "token":
                return lease._replace(token=lease.token + (1 if pick % 2 else -1))
            case "session":
                return lease._replace(session=self.sessions[pick % len(self.sessions)])
            case "nowhere":
                return lease._replace(job=new_id())
            case _:
                return lease

    def settlements(self, session: str, outcomes: Sequence[Outcome]) -> list[Settlement]:
        return [
            MAKE[kind](lease, self.clock.wall() + delay * SECOND)
            for pick, which, kind, delay in outcomes
            for lease in self.leases(session, [(pick, which)])
        ]

    # -- enqueue

    def enqueue(self, jobs: Sequence[NewJob]) -> None:
        # An id that comes twice in one call has one receipt, that of the first.
        once = list({job.id: job for job in jobs}.values())
        self.asked += [job for job in once if job not in self.asked]
        receipts, modelled = both(
            lambda: self.store.enqueue(once), lambda: self.model.enqueue(once)
        )
        if receipts is not None:
            assert [(each.job, each.outcome, each.state) for each in receipts] == modelled

    def enqueue_under(self, fence: Lease, jobs: Sequence[NewJob]) -> None:
        receipts, modelled = both(
            lambda: self.store.enqueue(jobs, fence=fence),
            lambda: self.model.enqueue_under(fence, jobs),
        )
        if receipts is not None:
            self.asked += [job for job in jobs if job not in self.asked]
            assert [(each.job, each.outcome, each.state) for each in receipts] == modelled

    # -- hold

    def begin(self, tasks: Sequence[str]) -> str:
        session = new_id()
        self.sessions.append(session)
        self.register(session, frozenset(tasks), LEASES[len(self.sessions) % len(LEASES)])
        return session

    def register(self, session: str, tasks: frozenset[str], lease: timedelta) -> None:
        new = NewSession(session, SessionKind.WORKER, "w", "h", 1, lease, tasks)
        answer, moment = both(
            lambda: self.store.register(new),
            lambda: self.model.register(session, tasks, microseconds(lease)),
        )
        if answer is not None:
            assert answer.moment == moment
            self.digests[session] = answer.tasks

    def seq(self, session: str) -> int:
        """The last one that the store has answered."""
        return self.model.sessions[session].seq if session in self.model.sessions else 0

    def exchange(
        self,
        session: str,
        seq: int,
        settlements: Sequence[Settlement],
        pool: Pool,
        begun: Sequence[Lease] = (),
    ) -> None:
        answer, modelled = both(
            lambda: self.store.exchange(session, seq, settlements, Want((pool,)), begun),
            lambda: self.model.exchange(session, seq, settlements, pool, begun),
        )
        if answer is not None:
            standing, rejected, claimed = modelled
            assert answer.standing == standing
            assert list(answer.rejected) == [Rejected(*each) for each in rejected]
            assert [each.lease for each in answer.claimed] == claimed
            self.given += claimed

    def renew(
        self,
        session: str,
        begun: Sequence[Lease] = (),
        draining: bool = False,
        stepped: bool = False,
    ) -> None:
        answer, _ = both(
            lambda: self.store.renew(session, begun, draining, stepped),
            lambda: self.model.renew(session, begun, draining, stepped),
        )
        if answer is not None:
            held = self.model.held(session)
            assert answer.standing == self.model.standing(session)
            assert answer.digest == digest((lease.job, lease.token) for lease in held)
            assert set(self.store.held(session)) == set(held)
            asked = {each for each in held if self.model.jobs[each.job].cancel_requested}
            assert set(answer.cancels) == asked
            assert set(answer.paused) == self.model.paused

    def release(self, session: str, leases: Sequence[Lease]) -> None:
        rejected = self.store.release(session, leases, Drained())
        assert list(rejected) == [Rejected(*each) for each in self.model.release(session, leases)]

    def end(self, session: str, charged: bool) -> None:
        cause = KILLED if charged else Drained()
        assert self.store.end(session, cause) is self.model.end(session, charged=charged)

    # -- sweep

    def expire(self, longest: timedelta | None = None) -> None:
        at_most = None if longest is None else microseconds(longest)
        ended = {each.id for each in self.store.expire(longest=longest)}
        assert ended == self.model.expire(at_most)

    def recover(self, session: str) -> None:
        answer, went = self.store.recover(session), self.model.recover(session)
        assert (answer.ready, answer.failed, answer.cancelled) == tuple(
            went.get(state, 0) for state in (State.READY, State.FAILED, State.CANCELLED)
        )

    def sweep(self) -> None:
        self.expire()
        for session in self.sessions:
            self.recover(session)

    def promote(self) -> None:
        answer = self.store.promote()
        ready, lapsed = self.model.promote()
        assert answer.lapsed == lapsed
        assert ready is None or answer.ready == ready

    def prune(self) -> None:
        answer = self.store.prune(DEFAULT_RETENTION)
        assert (answer.jobs, answer.sessions) == self.model.prune()

    def wait(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    # -- control

    def cancel(self, job: str) -> None:
        answer, state = both(lambda: self.store.cancel(job), lambda: self.model.cancel(job))
        assert answer == state

    def retry(self, job: str, off: int) -> None:
        seen = (self.model.jobs[job].round if job in self.model.jobs else 1) + off
        answer, round_ = both(
            lambda: self.store.retry(job, seen), lambda: self.model.retry(job, seen)
        )
        assert answer == round_

    def repair(self, job: str) -> None:
        answer, state = both(
            lambda: self.store.repair(job, "{}", 1, ()), lambda: self.model.repair(job)
        )
        assert answer == state

    def limit(self, queue: str, concurrency: int | None) -> None:
        if concurrency is None:
            self.store.limit_queue(queue, None)
            self.model.concurrency.pop(queue, None)
        else:
            self.store.limit_queue(queue, QueueRules(concurrency=concurrency))
            self.model.concurrency[queue] = concurrency

    def pause(self, queue: str, paused: bool) -> None:
        self.store.pause(queue, paused)
        (self.model.paused.add if paused else self.model.paused.discard)(queue)

    # -- what they have

    def compare_jobs(self) -> None:
        jobs = self.store.jobs(JobFilter(), limit=1_000).jobs
        assert {job.id for job in jobs} == set(self.model.jobs)
        for job in jobs:
            kept = self.model.jobs[job.id]
            assert (job.state, job.token, job.round) == (kept.state, kept.token, kept.round), kept
            assert job.counters == (kept.failures, kept.orphans, kept.strikes)
            assert (job.ready_at, job.finished_at) == (kept.ready_at, kept.finished)
            assert (job.blocked_by, job.pending) == (reason_of(kept.waits), kept.pending)
            if job.state not in FINAL:
                assert (job.suspect, job.last_run) == (kept.suspect, kept.last_run)
                assert (job.cancel_requested_at is not None) is kept.cancel_requested
            if job.state is State.RUNNING:
                assert (job.session, job.begun) == (kept.holder, kept.begun)

    def compare_sessions(self) -> None:
        real = {
            each.id: (each.state, each.moment, each.seq, each.holds)
            for each in self.store.sessions(with_dead=True)
        }
        assert real == {
            id_: (each.state, each.moment, each.seq, len(self.model.held(id_)))
            for id_, each in self.model.sessions.items()
        }

    def compare_queues(self) -> None:
        real = {
            (view.name, state): count
            for view in self.store.queues()
            for state, count in view.counts.items()
        }
        assert real == self.model.counts()


def both(real: Callable[[], Any], modelled: Callable[[], Any]) -> tuple[Any, Any]:
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
            said = str(error)
        except Refused as refused:
            answers.append(None)
            errors.append(str(refused))
    assert errors[0] == errors[1], said
    return answers[0], answers[1]
