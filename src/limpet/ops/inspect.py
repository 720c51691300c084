"""What the store knows, as plain data that can be printed as JSON."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from limpet.domain.cause import Cause
from limpet.domain.clock import SystemClock
from limpet.domain.duration import spoken
from limpet.domain.errors import JobNotFound
from limpet.domain.event import Event, timeline
from limpet.domain.job import Job, masked
from limpet.domain.masking import NO_MASK, Mask
from limpet.domain.queue import QueueRules, QueueView
from limpet.domain.rules import Rules
from limpet.domain.session import Session
from limpet.domain.state import State
from limpet.ops.record import Record, iso
from limpet.ops.selection import Readable, Selection
from limpet.ops.why import Explicable, Reason, blocked_by, queue_reasons, reason_of
from limpet.storage.base import InspectVerbs
from limpet.storage.unreadable import NONSENSE, why

# How many failed children are told one by one; the others are counted.
MOST_FAILED = 20
# The facts of a cause that are words of a job or a person; all others are Limpet's own.
_SAID = frozenset({"message", "text", "traceback", "reason", "name"})


def job_record(job: Job) -> Record:
    """A job without its timeline; secrets are masked."""
    progress = job.progress
    mask = _mask_of(job)
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
        "key": job.key,
        "unique": job.unique,
        "parent": job.parent,
        "root": job.root,
        "pending": job.pending,
        "relaunch_at": iso(job.relaunch_at),
        "rules": _rules_record(job.rules),
        "payload_version": job.payload_version,
        "args": masked(shown(job.args), job.secrets),
        "options": shown(job.options),
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
            "note": mask(progress.note),
            "at": iso(progress.at),
        },
        "result": _masked_result(job),
        "error": cause_record(job.error, mask),
        "unreadable": list(job.unreadable),
    }


def _mask_of(job: Job) -> Mask:
    """What its job could not mask itself: of its result nobody knew that it would be secret."""
    sources = [(job.args, job.secrets)] if job.secrets else []
    if job.result is not None and job.result_secrets:
        sources.append((job.result, job.result_secrets))
    return Mask(*sources)


def shown(text: str) -> Any:
    """The value of a JSON text of the store; of what is none, why, without the text, which may hold
    secrets.
    """
    try:
        return msgspec.json.decode(text)
    except NONSENSE as error:
        return f"(cannot be read: {why(error)})"


def _rules_record(rules: Rules) -> Record:
    told = rules.record()
    if rules.key_rate is not None:
        told["key_rate"] = str(rules.key_rate)
    if rules.unique_for is not None:
        told["unique_for"] = spoken(timedelta(microseconds=rules.unique_for))
    return told


def _masked_result(job: Job) -> Any:
    if job.result is None:
        return None
    # In a box, so that a result which is itself secret has a path too.
    paths = tuple(f"result/{path}".rstrip("/") for path in job.result_secrets)
    return masked({"result": shown(job.result)}, paths)["result"]


def cause_record(cause: Cause | None, mask: Mask = NO_MASK) -> Record | None:
    """A cause with its kind and its sentence; only what people or programs said is masked."""
    if cause is None:
        return None
    record = cause.record()
    return record | {name: mask(record[name]) for name in _SAID & record.keys()}


def _event_record(event: Event, mask: Mask) -> Record:
    return {
        "at": iso(event.at),
        "event": str(event.event),
        "session": event.session,
        "token": event.token,
        "cause": cause_record(event.cause, mask),
    }


def show_job(store: Explicable, id_: str) -> Record:
    """A job with why it does not run, its children, its timeline and its log; raises
    `JobNotFound`.
    """
    job = store.job(id_)
    if job is None:
        raise JobNotFound(id_)
    told = timeline(job, list(store.events(id_)))
    mask = _mask_of(job)
    return {
        **job_record(job),
        "why": reason_of(store, job, SystemClock().wall()).record(),
        "children": children_record(store, id_),
        "timeline": [_event_record(event, mask) for event in told],
        "log": [
            {"at": iso(line.at), "level": line.level, "message": mask(line.message)}
            for line in store.log(id_)
        ],
    }


def children_record(store: Readable, id_: str) -> Record | None:
    """How many children a job has in each state, and the first of those that failed; None for a
    job without children.
    """
    counts: Counter[State] = Counter()
    failed: list[Record] = []
    for jobs in Selection(parent=id_).pages(store):
        counts.update(each.state for each in jobs)
        ended_badly = [each for each in jobs if each.state is State.FAILED]
        failed += [
            {
                "id": each.id,
                "task": each.task,
                "error": cause_record(each.error, _mask_of(each)),
            }
            for each in ended_badly[: MOST_FAILED - len(failed)]
        ]
    if not counts:
        return None
    return {
        "counts": {state.value: counts[state] for state in State if counts[state]},
        "failed": failed,
    }


def list_jobs(
    store: Readable, which: Selection, cursor: str | None = None, limit: int = 50
) -> tuple[list[Record], str | None]:
    """A page of jobs, newest first, and the cursor of the next."""
    jobs, cursor = which.page(store, cursor, limit)
    return [job_record(job) for job in jobs], cursor


def list_queues(store: Explicable) -> list[Record]:
    """Every queue with its counts, its limits, and why nothing, or no more, of it runs."""
    queues = store.queues()
    reasons = queue_reasons(store, queues, SystemClock().wall())
    blocked = blocked_by(store, queues)
    return [
        _queue_record(queue, reasons.get(queue.name), blocked.get(queue.name, {}))
        for queue in queues
    ]


def rules_of_queue(rules: QueueRules) -> Record:
    """What is limited, as plain data; what is not named is not limited."""
    told = {name: value for name, value in rules._asdict().items() if value is not None}
    if rules.rate is not None:
        told["rate"] = str(rules.rate)
    return told


def _queue_record(queue: QueueView, reason: Reason | None, blocked: Mapping[str, int]) -> Record:
    return {
        "queue": queue.name,
        "paused": queue.paused,
        "draining": queue.draining,
        "held_until": iso(queue.held_until),
        "rules": rules_of_queue(queue.rules),
        "adjusted": rules_of_queue(queue.adjusted),
        "next_at": iso(queue.next_at),
        "why": None if reason is None else reason.record(),
        "blocked_by": dict(blocked),
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
        "unreadable": list(session.unreadable),
    }
