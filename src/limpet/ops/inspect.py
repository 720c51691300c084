"""Shows what the store holds: jobs, queues, and the sessions of workers."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from limpet.domain.clock import SystemClock
from limpet.domain.errors import JobNotFound
from limpet.domain.event import timeline
from limpet.domain.queue import QueueRules, QueueView
from limpet.domain.session import Session, SessionState
from limpet.domain.state import State
from limpet.ops.cause_answer import CauseAnswer, cause_answer
from limpet.ops.job_answer import (
    JobAnswer,
    JobDetail,
    children_answer,
    event_answer,
    job_answer,
    log_answer,
    mask_of,
)
from limpet.ops.reason import Reason
from limpet.ops.record import iso
from limpet.ops.selection import Readable, Selection
from limpet.ops.why import Explicable, blocked_by, queue_reasons, reason_of
from limpet.storage.contract.store import InspectVerbs


class JobPage(Struct, frozen=True, kw_only=True):
    """A page of jobs, newest first, and the cursor of the next page; None after the last page."""

    jobs: tuple[JobAnswer, ...]
    cursor: str | None


class QueueLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much of a queue may be under way; a field that is left out is not limited."""

    concurrency: int | None = None
    rate: str | None = None
    weight: int | None = None


class QueueAnswer(Struct, frozen=True, kw_only=True):
    """A queue: its limits, why no job, or no further one, starts, and its jobs in each state.

    `rules` are the limits in force; `adjusted`: those of them that were set at run time.
    `blocked_by`: reason → number of jobs, among the blocked jobs that were read.
    """

    queue: str
    paused: bool
    draining: bool
    held_until: str | None
    rules: QueueLimits
    adjusted: QueueLimits
    next_at: str | None
    why: Reason | None
    blocked_by: dict[str, int]
    scheduled: int
    ready: int
    blocked: int
    running: int
    quarantined: int
    succeeded: int
    failed: int
    cancelled: int
    head_ready_at: str | None

    def in_state(self, state: State) -> int:
        """How many of its jobs are in that state."""
        count: int = getattr(self, state.value)
        return count


class SessionAnswer(Struct, frozen=True, kw_only=True):
    """A session of a worker; `cause`: why it ended."""

    session: str
    name: str
    host: str
    pid: int
    state: SessionState
    overdue: bool
    holds: int
    lease_seconds: float
    registered_at: str
    renewed_at: str
    ended_at: str | None
    cause: CauseAnswer | None
    unreadable: tuple[str, ...]


def show_job(store: Explicable, id_: str) -> JobDetail:
    """A job with the reason why it does not run, its children, its timeline and its log; raises
    `JobNotFound`.
    """
    job = store.job(id_)
    if job is None:
        raise JobNotFound(id_)
    events = timeline(job, list(store.events(id_)))
    mask = mask_of(job)
    return JobDetail(
        **asdict(job_answer(job)),
        why=reason_of(store, job, SystemClock().wall()),
        children=children_answer(store, id_),
        timeline=tuple(event_answer(event, mask) for event in events),
        log=tuple(log_answer(line, mask) for line in store.log(id_)),
    )


def list_jobs(
    store: Readable, which: Selection, cursor: str | None = None, limit: int = 50
) -> JobPage:
    """A page of jobs, newest first."""
    jobs, following = which.page(store, cursor, limit)
    return JobPage(jobs=tuple(job_answer(job) for job in jobs), cursor=following)


def list_queues(store: Explicable) -> list[QueueAnswer]:
    """Every queue with its counts, its limits, and why no job, or no further one, starts."""
    queues = store.queues()
    reasons = queue_reasons(store, queues, SystemClock().wall())
    blocked = blocked_by(store, queues)
    return [
        _queue_answer(queue, reasons.get(queue.name), blocked.get(queue.name, {}))
        for queue in queues
    ]


def limits_of(rules: QueueRules) -> QueueLimits:
    """The limits among the rules of a queue."""
    rate = None if rules.rate is None else str(rules.rate)
    return QueueLimits(concurrency=rules.concurrency, rate=rate, weight=rules.weight)


def counts_by_state(queue: QueueView) -> dict[str, Any]:
    """How many jobs of a queue are in each state, as the fields of an answer."""
    return {state.value: queue.counts.get(state, 0) for state in State}


def _queue_answer(
    queue: QueueView, reason: Reason | None, blocked: Mapping[str, int]
) -> QueueAnswer:
    return QueueAnswer(
        queue=queue.name,
        paused=queue.paused,
        draining=queue.draining,
        held_until=iso(queue.held_until),
        rules=limits_of(queue.rules),
        adjusted=limits_of(queue.adjusted),
        next_at=iso(queue.next_at),
        why=reason,
        blocked_by=dict(blocked),
        **counts_by_state(queue),
        head_ready_at=iso(queue.head_ready_at),
    )


def list_sessions(store: InspectVerbs, with_dead: bool = False) -> list[SessionAnswer]:
    """The sessions of workers, newest first."""
    return [_session_answer(session) for session in _workers(store.sessions(with_dead))]


def _workers(sessions: Iterable[Session]) -> Iterable[Session]:
    return (session for session in sessions if session.kind == "worker")


def _session_answer(session: Session) -> SessionAnswer:
    return SessionAnswer(
        session=session.id,
        name=session.name,
        host=session.host,
        pid=session.pid,
        state=session.state,
        overdue=session.overdue,
        holds=session.holds,
        lease_seconds=session.lease.total_seconds(),
        registered_at=iso(session.registered_at),
        renewed_at=iso(session.renewed_at),
        ended_at=iso(session.ended_at),
        cause=cause_answer(session.cause),
        unreadable=session.unreadable,
    )
