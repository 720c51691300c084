"""The whole store at a glance, for a live view to draw and a monitoring system to read.

It leaves out arguments and results of jobs, so that it cannot contain secrets.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from limpet.domain.event import JobEvent
from limpet.domain.job import Job, JobFilter
from limpet.domain.queue import QueueView
from limpet.domain.result import COUNT
from limpet.domain.session import Session, SessionKind
from limpet.domain.state import Move, State
from limpet.ops.cause_answer import CauseAnswer, short_cause
from limpet.ops.inspect import counts_by_state
from limpet.ops.job_answer import ProgressAnswer, progress_answer
from limpet.ops.reason import Reason
from limpet.ops.record import iso
from limpet.ops.why import Explicable, blocked_by, queue_reasons
from limpet.storage.contract.store import InspectVerbs

# How many running jobs and events are read, so that an overview stays cheap.
MOST_JOBS = 100
MOST_EVENTS = 10

# The moves that finish a job.
_FINISHING = (Move.COMPLETE, Move.FAIL, Move.CANCEL, Move.EXPIRE, Move.ABANDON)


class StoreAnswer(Struct, frozen=True, kw_only=True):
    """Where the jobs are stored, and what they survive there."""

    url: str
    durability: str
    engine: str


class LiveWorker(Struct, frozen=True, kw_only=True):
    """A session of a worker; `state` is that of the session, or "overdue"."""

    session: str
    name: str
    host: str
    pid: int
    state: str
    holds: int
    heard_seconds_ago: float
    lease_seconds: float
    registered_at: str


class QueueTotals(Struct, frozen=True, kw_only=True):
    """A queue: why no job, or no further one, starts, its jobs in each state, and totals so far.

    `orphaned`: attempts lost with their holder; `recovered`: those of them whose whole worker
    was dead. `blocked_by`: reason → number of jobs, among the blocked jobs that were read.
    `counts`: what its jobs have counted with `Result`, and their warnings.
    """

    queue: str
    paused: bool
    draining: bool
    why: Reason | None
    scheduled: int
    ready: int
    blocked: int
    running: int
    quarantined: int
    succeeded: int
    failed: int
    cancelled: int
    blocked_by: dict[str, int]
    head_ready_at: str | None
    finished: int
    retried: int
    orphaned: int
    recovered: int
    counts: dict[str, int]


class RunningJob(Struct, frozen=True, kw_only=True):
    """A running job: on which worker (None: one that is gone), and for how long."""

    id: str
    task: str
    queue: str
    session: str | None
    worker: str | None
    attempt: int
    begun: bool
    seconds: float | None
    cancel_requested: bool
    progress: ProgressAnswer | None


class JobEventAnswer(Struct, frozen=True, kw_only=True):
    """Something that went wrong with a job."""

    at: str
    event: str
    job: str
    task: str
    queue: str
    cause: CauseAnswer | None


class Overview(Struct, frozen=True, kw_only=True):
    """The store at one moment; `running`: the jobs that run longest, of `running_total`."""

    at: str
    store: StoreAnswer
    workers: tuple[LiveWorker, ...]
    queues: tuple[QueueTotals, ...]
    running: tuple[RunningJob, ...]
    running_total: int
    events: tuple[JobEventAnswer, ...]


def overview(store: Explicable) -> Overview:
    """Store, workers, queues, running jobs (longest first) and what went wrong last."""
    now = datetime.now(UTC)
    sessions = [session for session in store.sessions() if session.kind is SessionKind.WORKER]
    queues = store.queues()
    counts = sum((Counter(queue.counts) for queue in queues), Counter[State]())
    running = _some(store, State.RUNNING) if counts[State.RUNNING] else ()
    names = {session.id: session.name for session in sessions}
    info = store.info()
    return Overview(
        at=now.isoformat(timespec="milliseconds"),
        store=StoreAnswer(
            url=without_password(info.url), durability=info.durability, engine=info.engine
        ),
        workers=tuple(_live_worker(session, now) for session in sessions),
        queues=_queue_totals(queues, store, now),
        running=tuple(
            _running_job(job, names, now)
            for job in sorted(running, key=lambda job: (job.claimed_at or 0, job.id))
        ),
        running_total=counts[State.RUNNING],
        events=tuple(_event_answer(event) for event in store.latest_events(MOST_EVENTS)),
    )


def finished_per_second(before: Overview, after: Overview) -> dict[str, float]:
    """How many jobs each queue finished per second between two overviews."""
    gap = datetime.fromisoformat(after.at) - datetime.fromisoformat(before.at)
    then = {queue.queue: queue.finished for queue in before.queues}
    seconds = gap.total_seconds()
    if seconds <= 0:
        return {}
    return {
        queue.queue: max(0, queue.finished - then.get(queue.queue, 0)) / seconds
        for queue in after.queues
    }


def without_password(url: str) -> str:
    """The URL of a store, with its password masked."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    user, _, place = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    netloc = f"{name}:***@{place}" if colon else f"{name}@{place}"
    return urlunsplit(parts._replace(netloc=netloc))


def _some(store: InspectVerbs, state: State) -> tuple[Job, ...]:
    return store.jobs(JobFilter(state), limit=MOST_JOBS).jobs


def _live_worker(session: Session, now: datetime) -> LiveWorker:
    return LiveWorker(
        session=session.id,
        name=session.name,
        host=session.host,
        pid=session.pid,
        state="overdue" if session.overdue else session.state.value,
        holds=session.holds,
        heard_seconds_ago=_since(session.renewed_at, now),
        lease_seconds=session.lease.total_seconds(),
        registered_at=iso(session.registered_at),
    )


def _queue_totals(
    queues: tuple[QueueView, ...], store: Explicable, now: datetime
) -> tuple[QueueTotals, ...]:
    moves: dict[str, dict[str, int]] = {}
    for total in store.totals():
        moves.setdefault(total.queue, {})[total.move] = total.count
    reasons = blocked_by(store, queues)
    why = queue_reasons(store, queues, round(now.timestamp() * 1e6))
    return tuple(
        _totals_of(
            queue, moves.get(queue.name, {}), reasons.get(queue.name, {}), why.get(queue.name)
        )
        for queue in queues
    )


def _totals_of(
    queue: QueueView, moves: Mapping[str, int], reasons: Mapping[str, int], why: Reason | None
) -> QueueTotals:
    return QueueTotals(
        queue=queue.name,
        paused=queue.paused,
        draining=queue.draining,
        why=why,
        **counts_by_state(queue),
        blocked_by=dict(reasons),
        head_ready_at=iso(queue.head_ready_at),
        finished=sum(moves.get(move, 0) for move in _FINISHING),
        retried=moves.get(Move.RETRY, 0),
        orphaned=moves.get(Move.ORPHAN, 0) + moves.get(Move.RECOVER, 0),
        recovered=moves.get(Move.RECOVER, 0),
        counts={
            move.removeprefix(COUNT): count
            for move, count in sorted(moves.items())
            if move.startswith(COUNT)
        },
    )


def _running_job(job: Job, names: Mapping[str, str], now: datetime) -> RunningJob:
    return RunningJob(
        id=job.id,
        task=job.task,
        queue=job.queue,
        session=job.session,
        worker=names.get(job.session or ""),
        attempt=job.counters.failures + job.counters.orphans + 1,
        begun=job.begun,
        seconds=None if job.claimed_at is None else _since(job.claimed_at, now),
        cancel_requested=job.cancel_requested_at is not None,
        progress=progress_answer(job.progress),
    )


def _event_answer(found: JobEvent) -> JobEventAnswer:
    return JobEventAnswer(
        at=iso(found.event.at),
        event=str(found.event.event),
        job=found.job,
        task=found.task,
        queue=found.queue,
        cause=short_cause(found.event.cause),
    )


def _since(wall: int, now: datetime) -> float:
    return round(max(0.0, now.timestamp() - wall / 1e6), 3)
