"""The contract as a small pure model: plain values, no SQL, no clever indexes.

It is written from the docstrings of `limpet.storage.contract` and from DESIGN, sections 2, 4, 5 and
7; what becomes of an attempt is in `contract.model_outcome`, what shapes the work in
`contract.model_shape`.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta

from contract.model_outcome import hand_back, lose, settle
from contract.model_rows import ModelJob, ModelSession
from contract.model_shape import CHILDREN, Shape

from limpet.domain.duration import microseconds
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.queue import DEFAULT_RETENTION, REPEAT_WINDOW
from limpet.domain.state import FINAL, WAITING, State
from limpet.domain.transition import Answer, Release, Settlement
from limpet.storage.contract.store import ANY_QUEUE, Pool

DAY = microseconds(timedelta(days=1))


class Refused(Exception):
    """The contract has an error for this; its name is the argument."""


class Model:
    """What a store must do; time comes from outside."""

    def __init__(self, wall: Callable[[], int], boot: Callable[[], int]) -> None:
        self._wall = wall
        self._boot = boot
        self._count = 0
        self.jobs: dict[str, ModelJob] = {}
        self.sessions: dict[str, ModelSession] = {}
        self.paused: set[str] = set()
        self.concurrency: dict[str, int] = {}
        self._shape = Shape(self.jobs, wall)

    # -- what others ask

    def standing(self, session: str) -> str:
        kept = self.sessions[session]
        if kept.state == "dead":
            return "dead"
        return "past" if kept.moment <= self._boot() else kept.state

    def held(self, session: str) -> list[Lease]:
        return [
            Lease(id_, session, job.token)
            for id_, job in self.jobs.items()
            if job.state is State.RUNNING and job.holder == session
        ]

    def counts(self) -> dict[tuple[str, State], int]:
        told: dict[tuple[str, State], int] = {}
        for job in self.jobs.values():
            told[job.new.queue, job.state] = told.get((job.new.queue, job.state), 0) + 1
        return told

    # -- enqueue

    def enqueue(self, jobs: Sequence[NewJob]) -> list[tuple[str, str, State]]:
        if self._shape.lacks_parent(jobs):
            raise Refused("UnknownParent")
        answers = []
        for new in jobs:
            held = self._shape.holder(new)
            if new.id in self.jobs:
                answers.append((new.id, "already"))
            elif held is not None:
                answers.append((held, "duplicate"))
            else:
                self._take_in(new)
                answers.append((new.id, "new"))
        self._shape.follow()
        return [(id_, outcome, self.jobs[id_].state) for id_, outcome in answers]

    def _take_in(self, new: NewJob) -> None:
        now = self._wall()
        self._count += 1
        due = new.scheduled_for
        later = due is not None and due > now
        ready_at = due if due is not None and later else now
        job = self.jobs[new.id] = ModelJob(
            self._count, new, now, ready_at, State.SCHEDULED, new.expires_at, new.deadline_at
        )
        self._shape.hold(new)
        if job.rules.children:
            job.state, job.waits, job.pending = State.BLOCKED, CHILDREN, job.rules.children
        elif not later:
            self._shape.ready(job)

    def enqueue_under(self, fence: Lease, jobs: Sequence[NewJob]) -> list[tuple[str, str, State]]:
        known = fence.session in self.sessions
        if not known or self.standing(fence.session) not in ("live", "draining"):
            raise Refused("LeaseLost")
        if not self._holds(fence.session, fence):
            raise Refused("LeaseLost")
        return self.enqueue(jobs)

    # -- hold

    def register(self, session: str, tasks: frozenset[str], lease: int) -> int:
        known = self.sessions.get(session)
        if known is None:
            known = ModelSession(tasks, lease, self._boot() + lease)
            self.sessions[session] = known
            self._unblock(tasks)
        elif known.state == "dead":
            raise Refused("SessionLost")
        return known.moment

    def _unblock(self, tasks: frozenset[str]) -> None:
        for job in self.jobs.values():
            if job.waits == f"task:{job.new.task}" and job.new.task in tasks:
                self._shape.ready(job)
        self._shape.follow()

    def renew(
        self, session: str, begun: Sequence[Lease], draining: bool, stepped: bool = False
    ) -> None:
        if session not in self.sessions:
            raise Refused("StoreRolledBack")
        kept = self.sessions[session]
        if self.standing(session) in ("live", "draining") or (stepped and kept.state != "dead"):
            kept.moment = self._boot() + kept.lease
            kept.state = "draining" if draining else kept.state
            self._unblock(kept.tasks)
        self._begin(session, begun)

    def _begin(self, session: str, begun: Sequence[Lease]) -> None:
        for lease in begun:
            if self._holds(session, lease._replace(session=session)):
                self.jobs[lease.job].begun = True

    def _holds(self, session: str, lease: Lease) -> bool:
        job = self.jobs.get(lease.job)
        return (
            job is not None
            and self.standing(session) != "dead"
            and job.state is State.RUNNING
            and lease == Lease(lease.job, session, job.token)
            and job.holder == session
        )

    def _why_not(self, session: str, lease: Lease, word: type[Settlement]) -> Answer:
        job = self.jobs.get(lease.job)
        if job is None:
            return "gone"
        known = lease.session == session and (session, lease.token, word) in job.accepted
        return "already" if known else "lost"

    def exchange(
        self,
        session: str,
        seq: int,
        settlements: Sequence[Settlement],
        pool: Pool | None,
        begun: Sequence[Lease],
    ) -> tuple[str, list[tuple[Lease, Answer]], list[Lease]]:
        if session not in self.sessions:
            raise Refused("StoreRolledBack")
        kept = self.sessions[session]
        standing = self.standing(session)
        if seq == kept.seq and seq > 0:
            still = [lease for lease in kept.claimed if lease in self.held(session)]
            still = [] if standing == "dead" else still
            return standing, kept.rejected, still
        if seq <= kept.seq:
            raise Refused("SequenceError")
        if seq > kept.seq + 1:
            raise Refused("StoreRolledBack")
        self._begin(session, begun)
        rejected: list[tuple[Lease, Answer]] = []
        for settlement in settlements:
            lease = settlement.lease
            if self._holds(session, lease):
                self.jobs[lease.job].accepted.add((session, lease.token, type(settlement)))
                settle(self.jobs[lease.job], settlement, self._wall())
            else:
                rejected.append((lease, self._why_not(session, lease, type(settlement))))
        self._shape.follow()
        claimed = self._claim(session, pool) if pool and standing == "live" else []
        self._shape.follow()
        kept.seq, kept.rejected, kept.claimed = seq, rejected, claimed
        return standing, rejected, claimed

    def release(self, session: str, leases: Sequence[Lease]) -> list[tuple[Lease, Answer]]:
        rejected: list[tuple[Lease, Answer]] = []
        for lease in leases:
            if session in self.sessions and self._holds(session, lease):
                self.jobs[lease.job].accepted.add((session, lease.token, Release))
                hand_back(self.jobs[lease.job], self._wall())
            else:
                rejected.append((lease, self._why_not(session, lease, Release)))
        self._shape.follow()
        return rejected

    def _claim(self, session: str, pool: Pool) -> list[Lease]:
        now = self._wall()
        ready = sorted(
            (job for job in self.jobs.values() if job.state is State.READY),
            key=lambda job: job.place,
        )
        ready = [job for job in ready if job.new.queue not in self.paused]
        tasks = self.sessions[session].tasks
        mine = [job for job in ready if job.new.task in tasks and not job.lapsed(now)]
        slots = {
            job.new.queue: pool.slots.get(job.new.queue, pool.slots.get(ANY_QUEUE, 0))
            for job in ready
        }
        for queue, most in self.concurrency.items():
            running = self.counts().get((queue, State.RUNNING), 0)
            slots[queue] = max(0, min(slots.get(queue, 0), most - running))
        for queue, places in slots.items():
            if min(places, pool.total) > 0:
                self._block_strangers(queue, ready)
        taken: list[Lease] = []
        suspects = pool.suspects
        for job in mine:
            if len(taken) == pool.total:
                break
            if slots[job.new.queue] == 0 or (job.suspect and suspects == 0):
                continue
            slots[job.new.queue] -= 1
            suspects -= job.suspect
            job.state, job.holder, job.begun = State.RUNNING, session, False
            job.token += 1
            taken.append(Lease(job.new.id, session, job.token))
        return taken

    def _block_strangers(self, queue: str, ready: list[ModelJob]) -> None:
        """A claim that has room in a queue sees who it is that nobody will take."""
        living = [each.tasks for each in self.sessions.values() if each.state != "dead"]
        known = frozenset[str]().union(*living)
        for job in ready:
            if job.new.queue == queue and job.new.task not in known:
                job.state, job.waits = State.BLOCKED, f"task:{job.new.task}"

    def end(self, session: str, *, charged: bool) -> bool:
        kept = self.sessions.get(session)
        if kept is None or kept.state == "dead":
            return False
        kept.state, kept.charged, kept.ended = "dead", charged, self._wall()
        return True

    # -- sweep

    def expire(self, longest: int | None = None) -> set[str]:
        for session, kept in self.sessions.items():
            if kept.state != "dead" and kept.moment <= self._boot():
                if longest is None or kept.lease <= longest:
                    self.end(session, charged=True)
            elif kept.state != "dead":
                kept.moment = min(kept.moment, self._boot() + kept.lease)
        return {
            session
            for session, kept in self.sessions.items()
            if kept.state == "dead" and self.held(session)
        }

    def recover(self, session: str) -> dict[State, int]:
        went: dict[State, int] = {}
        kept = self.sessions.get(session)
        if kept is not None and kept.state == "dead":
            for lease in self.held(session):
                job = self.jobs[lease.job]
                lose(job, self._wall(), begun=job.begun, charged=kept.charged, alone=None)
                went[job.state] = went.get(job.state, 0) + 1
        self._shape.follow()
        return went

    def promote(self) -> tuple[int | None, int]:
        """How many became ready, None where keys have a say in it; how many were too late."""
        now = self._wall()
        late = [job for job in self.jobs.values() if job.state in WAITING and job.lapsed(now)]
        for job in late:
            missed = job.deadline is not None and job.deadline <= now
            job.finish(State.FAILED if missed else State.CANCELLED, now)
        due = [
            job
            for job in self.jobs.values()
            if job.state is State.SCHEDULED and job.ready_at <= now
        ]
        for job in due:
            self._shape.ready(job)
        self._shape.follow()
        keyed = any(job.new.key for job in [*late, *due])
        return None if keyed else len(due), len(late)

    def prune(self) -> tuple[int, int]:
        now = self._wall()
        window = now - microseconds(REPEAT_WINDOW)
        old = [
            id_
            for id_, job in self.jobs.items()
            if job.finished is not None
            and job.finished < now - microseconds(DEFAULT_RETENTION[job.state])
            and job.created < window
            and self._shape.pruned_apart_from(job)
        ]
        for id_ in old:
            del self.jobs[id_]
        forgotten = [
            id_
            for id_, kept in self.sessions.items()
            if kept.ended is not None and kept.ended < now - DAY and not self.held(id_)
        ]
        for id_ in forgotten:
            del self.sessions[id_]
        return len(old), len(forgotten)

    # -- control

    def cancel(self, job: str) -> State:
        if job not in self.jobs:
            raise Refused("JobNotFound")
        kept = self.jobs[job]
        if kept.state is State.RUNNING:
            kept.cancel_requested = True
        elif kept.state not in FINAL:
            kept.cancel_requested = True
            kept.finish(State.CANCELLED, self._wall())
        self._shape.follow()
        return kept.state

    def retry(self, job: str, seen: int) -> int:
        if job not in self.jobs:
            raise Refused("JobNotFound")
        kept = self.jobs[job]
        if kept.round == seen + 1:
            return kept.round
        if kept.state not in FINAL or kept.round != seen or self._shape.holder(kept.new):
            raise Refused("MoveRefused")
        kept.round += 1
        kept.failures = kept.orphans = kept.strikes = 0
        kept.suspect = kept.last_run = kept.begun = kept.cancel_requested = False
        kept.expires = kept.deadline = kept.finished = None
        kept.ready_at = self._wall()
        self._shape.hold(kept.new)
        self._shape.ready(kept)
        self._shape.follow()
        return kept.round

    def repair(self, job: str) -> State:
        if job not in self.jobs:
            raise Refused("JobNotFound")
        kept = self.jobs[job]
        if kept.state is not State.QUARANTINED:
            raise Refused("MoveRefused")
        kept.ready_at = self._wall()
        self._shape.ready(kept)
        self._shape.follow()
        return kept.state
