"""What the store knows, as plain data that can be printed as JSON."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from limpet.domain.cause import Cause
from limpet.domain.errors import JobNotFound
from limpet.domain.event import Event, timeline
from limpet.domain.job import Job, JobFilter, Page, masked
from limpet.domain.queue import QueueView
from limpet.domain.session import Session
from limpet.domain.state import State
from limpet.storage.base import InspectVerbs

Record = dict[str, Any]


def iso(wall: int | None) -> str | None:
    """A wall time in microseconds as ISO 8601 in UTC."""
    if wall is None:
        return None
    return datetime.fromtimestamp(wall / 1e6, UTC).isoformat(timespec="milliseconds")


def job_record(job: Job) -> Record:
    """A job without its timeline; secrets are masked."""
    progress = job.progress
    return {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "state": job.state.value,
        "blocked_by": job.blocked_by,
        "priority": job.priority,
        "round": job.round,
        "token": job.token,
        "failures": job.counters.failures,
        "orphans": job.counters.orphans,
        "strikes": job.counters.strikes,
        "suspect": job.suspect,
        "session": job.session,
        "args": masked(msgspec.json.decode(job.args), job.secrets),
        "options": msgspec.json.decode(job.options),
        "created_at": iso(job.created_at),
        "ready_at": iso(job.ready_at),
        "claimed_at": iso(job.claimed_at),
        "finished_at": iso(job.finished_at),
        "expires_at": iso(job.expires_at),
        "deadline_at": iso(job.deadline_at),
        "cancel_requested_at": iso(job.cancel_requested_at),
        "progress": None
        if progress is None
        else {
            "done": progress.done,
            "total": progress.total,
            "note": progress.note,
            "at": iso(progress.at),
        },
        "result": _masked_result(job),
        "error": cause_record(job.error),
    }


def _masked_result(job: Job) -> Any:
    if job.result is None:
        return None
    # In a box, so that a result which is itself secret has a path too.
    paths = tuple(f"result/{path}".rstrip("/") for path in job.result_secrets)
    return masked({"result": msgspec.json.decode(job.result)}, paths)["result"]


def cause_record(cause: Cause | None) -> Record | None:
    """A cause with its kind and its sentence."""
    return None if cause is None else cause.record()


def _event_record(event: Event) -> Record:
    return {
        "at": iso(event.at),
        "event": str(event.event),
        "session": event.session,
        "token": event.token,
        "cause": cause_record(event.cause),
    }


def show_job(store: InspectVerbs, id_: str) -> Record:
    """A job with its timeline and its log; raises `JobNotFound`."""
    job = store.job(id_)
    if job is None:
        raise JobNotFound(id_)
    told = timeline(job, list(store.events(id_)))
    return {
        **job_record(job),
        "timeline": [_event_record(event) for event in told],
        "log": [
            {"at": iso(line.at), "level": line.level, "message": line.message}
            for line in store.log(id_)
        ],
    }


def list_jobs(
    store: InspectVerbs, which: JobFilter, cursor: str | None = None, limit: int = 50
) -> tuple[list[Record], str | None]:
    """A page of jobs, newest first, and the cursor of the next."""
    page: Page = store.jobs(which, cursor, limit)
    return [job_record(job) for job in page.jobs], page.cursor


def list_queues(store: InspectVerbs) -> list[Record]:
    """Every queue with its counts."""
    return [_queue_record(queue) for queue in store.queues()]


def _queue_record(queue: QueueView) -> Record:
    return {
        "queue": queue.name,
        "paused": queue.paused,
        **{state.value: queue.counts.get(state, 0) for state in State},
        "head_ready_at": iso(queue.head_ready_at),
    }


def list_sessions(store: InspectVerbs, with_dead: bool = False) -> list[Record]:
    """The workers' sessions, newest first."""
    return [_session_record(each) for each in _workers(store.sessions(with_dead))]


def _workers(sessions: Iterable[Session]) -> Iterable[Session]:
    return (each for each in sessions if each.kind == "worker")


def _session_record(session: Session) -> Record:
    return {
        "session": session.id,
        "name": session.name,
        "host": session.host,
        "pid": session.pid,
        "state": session.state.value,
        "overdue": session.overdue,
        "holds": session.holds,
        "lease_seconds": session.lease.total_seconds(),
        "registered_at": iso(session.registered_at),
        "renewed_at": iso(session.renewed_at),
        "ended_at": iso(session.ended_at),
        "cause": cause_record(session.cause),
    }
