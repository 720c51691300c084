"""The whole store at a glance, as plain data: what a live view draws and a monitor reads.

Arguments and results of jobs are no part of it, so that no secret can be.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit, urlunsplit

from limpet.domain.job import Job, JobFilter
from limpet.domain.queue import QueueView
from limpet.domain.result import COUNT
from limpet.domain.session import Session, SessionKind
from limpet.domain.state import Move, State
from limpet.ops.inspect import cause_record
from limpet.ops.record import Record, iso
from limpet.ops.why import Explicable, Reason, blocked_by, queue_reasons
from limpet.storage.base import InspectVerbs

# How many running jobs and events are looked at, so that a look stays cheap.
MOST_JOBS = 100
MOST_EVENTS = 10

# The moves by which a job comes to its end.
_FINISHING = (Move.COMPLETE, Move.FAIL, Move.CANCEL, Move.EXPIRE, Move.ABANDON)


def overview(store: Explicable) -> Record:
    """Store, workers, queues, running jobs (longest first) and what went wrong last."""
    now = datetime.now(UTC)
    sessions = [each for each in store.sessions() if each.kind is SessionKind.WORKER]
    queues = store.queues()
    counts = sum((Counter(queue.counts) for queue in queues), Counter[State]())
    running = _some(store, State.RUNNING) if counts[State.RUNNING] else ()
    names = {each.id: each.name for each in sessions}
    info = store.info()
    return {
        "at": now.isoformat(timespec="milliseconds"),
        "store": {
            "url": without_password(info.url),
            "durability": info.durability,
            "engine": info.engine,
        },
        "workers": [_worker_record(each, now) for each in sessions],
        "queues": _queue_records(queues, store, now),
        "running": [
            _running_record(job, names, now)
            for job in sorted(running, key=lambda job: (job.claimed_at or 0, job.id))
        ],
        "running_total": counts[State.RUNNING],
        "events": [
            {
                "at": iso(each.event.at),
                "event": str(each.event.event),
                "job": each.job,
                "task": each.task,
                "queue": each.queue,
                "cause": _short_cause(cause_record(each.event.cause)),
            }
            for each in store.latest_events(MOST_EVENTS)
        ],
    }


def finished_per_second(before: Record, after: Record) -> dict[str, float]:
    """How many jobs each queue finished per second between two overviews."""
    gap = datetime.fromisoformat(after["at"]) - datetime.fromisoformat(before["at"])
    then = {queue["queue"]: queue["finished"] for queue in before["queues"]}
    seconds = gap.total_seconds()
    if seconds <= 0:
        return {}
    return {
        queue["queue"]: max(0, queue["finished"] - then.get(queue["queue"], 0)) / seconds
        for queue in after["queues"]
    }


def without_password(url: str) -> str:
    """A store's URL as it may be shown."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    user, _, place = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    netloc = f"{name}:***@{place}" if colon else f"{name}@{place}"
    return urlunsplit(parts._replace(netloc=netloc))


def _some(store: InspectVerbs, state: State) -> tuple[Job, ...]:
    return store.jobs(JobFilter(state), limit=MOST_JOBS).jobs


def _worker_record(session: Session, now: datetime) -> Record:
    state = "overdue" if session.overdue else session.state.value
    return {
        "session": session.id,
        "name": session.name,
        "host": session.host,
        "pid": session.pid,
        "state": state,
        "holds": session.holds,
        "heard_seconds_ago": _since(session.renewed_at, now),
        "lease_seconds": session.lease.total_seconds(),
        "registered_at": iso(session.registered_at),
    }


def _queue_records(queues: tuple[QueueView, ...], store: Explicable, now: datetime) -> list[Record]:
    moves: dict[str, dict[str, int]] = {}
    for total in store.totals():
        moves.setdefault(total.queue, {})[total.move] = total.count
    reasons = blocked_by(store, queues)
    why = queue_reasons(store, queues, round(now.timestamp() * 1e6))
    return [
        _queue_record(
            queue, moves.get(queue.name, {}), reasons.get(queue.name, {}), why.get(queue.name)
        )
        for queue in queues
    ]


def _queue_record(
    queue: QueueView, moves: Mapping[str, int], reasons: Mapping[str, int], why: Reason | None
) -> Record:
    """`orphaned`: attempts lost with their holder; `recovered`: those of them whose whole worker
    was dead. `blocked_by`: reason → jobs, of those that were looked at. `why`: what keeps the
    queue back. `counts`: what its jobs have counted with `Result`, and their warnings.
    """
    return {
        "queue": queue.name,
        "paused": queue.paused,
        "draining": queue.draining,
        "why": None if why is None else why.record(),
        **{state.value: queue.counts.get(state, 0) for state in State},
        "blocked_by": dict(reasons),
        "head_ready_at": iso(queue.head_ready_at),
        "finished": sum(moves.get(move, 0) for move in _FINISHING),
        "retried": moves.get(Move.RETRY, 0),
        "orphaned": moves.get(Move.ORPHAN, 0) + moves.get(Move.RECOVER, 0),
        "recovered": moves.get(Move.RECOVER, 0),
        "counts": {
            move.removeprefix(COUNT): count
            for move, count in sorted(moves.items())
            if move.startswith(COUNT)
        },
    }


def _running_record(job: Job, names: Mapping[str, str], now: datetime) -> Record:
    progress = job.progress
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "session": job.session,
        "worker": names.get(job.session or ""),
        "attempt": job.counters.failures + job.counters.orphans + 1,
        "begun": job.begun,
        "seconds": None if job.claimed_at is None else _since(job.claimed_at, now),
        "cancel_requested": job.cancel_requested_at is not None,
        "progress": None
        if progress is None
        else {
            "done": progress.done,
            "total": progress.total,
            "note": progress.note,
            "at": iso(progress.at),
        },
    }


def _since(wall: int, now: datetime) -> float:
    return round(max(0.0, now.timestamp() - wall / 1e6), 3)


def _short_cause(cause: Record | None) -> Record | None:
    """Without the traceback, which belongs to the job's own page."""
    return None if cause is None else {"kind": cause["kind"], "text": cause["text"]}
