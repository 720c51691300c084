"""A job as answers show it; secrets are masked."""

from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct

from limpet.domain.duration import spoken
from limpet.domain.event import Event
from limpet.domain.job import Job, LogLine, Progress, masked
from limpet.domain.masking import NO_MASK, Mask
from limpet.domain.rules import ChildFailure, Rules, UniqueUntil
from limpet.domain.state import State
from limpet.ops.cause_answer import CauseAnswer, cause_answer
from limpet.ops.reason import Reason
from limpet.ops.record import iso
from limpet.ops.selection import Readable, Selection
from limpet.storage.records.unreadable import NONSENSE, why

# How many failed children an answer lists; the others are only counted.
MOST_FAILED = 20


class ProgressAnswer(Struct, frozen=True, kw_only=True):
    """How far a running job is, as it reported itself."""

    done: float
    total: float | None
    note: str
    at: str


class RulesAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the store must do for the job beside running it; a field left out has its default."""

    key_limit: int | None = None
    key_rate: str | None = None
    key_strict: bool | None = None
    unique_until: UniqueUntil | None = None
    unique_for: str | None = None
    replaces: bool | None = None
    children: int | None = None
    child_failure: ChildFailure | None = None


class JobAnswer(Struct, frozen=True, kw_only=True):
    """A job without its timeline.

    `args`, `options` and `result` are the JSON values that the store has. `pending`: for how many
    children it still waits. `unreadable`: the fields of its row that hold nonsense.
    """

    id: str
    task: str
    queue: str
    state: State
    blocked_by: str | None
    priority: int
    round: int
    token: int
    failures: int
    orphans: int
    strikes: int
    suspect: bool
    session: str | None
    key: str | None
    unique: str | None
    parent: str | None
    root: str | None
    pending: int
    relaunch_at: str | None
    rules: RulesAnswer
    payload_version: int
    args: Any
    options: Any
    created_at: str
    ready_at: str
    claimed_at: str | None
    finished_at: str | None
    expires_at: str | None
    deadline_at: str | None
    cancel_requested_at: str | None
    progress: ProgressAnswer | None
    result: Any
    error: CauseAnswer | None
    unreadable: tuple[str, ...]


class FailedChild(Struct, frozen=True, kw_only=True):
    """A child that failed, and why."""

    id: str
    task: str
    error: CauseAnswer | None


class ChildrenAnswer(Struct, frozen=True, kw_only=True):
    """How many children a job has in each state, and the first of those that failed."""

    counts: dict[State, int]
    failed: tuple[FailedChild, ...]


class EventAnswer(Struct, frozen=True, kw_only=True):
    """An entry of the timeline of a job."""

    at: str
    event: str
    session: str | None
    token: int | None
    cause: CauseAnswer | None


class LogAnswer(Struct, frozen=True, kw_only=True):
    """A line that a job has logged."""

    at: str
    level: str
    message: str


class JobDetail(JobAnswer, frozen=True, kw_only=True):
    """A job with the reason why it does not run, its children, its timeline and its log."""

    why: Reason
    children: ChildrenAnswer | None
    timeline: tuple[EventAnswer, ...]
    log: tuple[LogAnswer, ...]


def job_answer(job: Job) -> JobAnswer:
    """A job without its timeline."""
    mask = mask_of(job)
    return JobAnswer(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=job.state,
        blocked_by=job.blocked_by,
        priority=job.priority,
        round=job.round,
        token=job.token,
        failures=job.counters.failures,
        orphans=job.counters.orphans,
        strikes=job.counters.strikes,
        suspect=job.suspect,
        session=job.session,
        key=job.key,
        unique=job.unique,
        parent=job.parent,
        root=job.root,
        pending=job.pending,
        relaunch_at=iso(job.relaunch_at),
        rules=_rules_answer(job.rules),
        payload_version=job.payload_version,
        args=masked(shown(job.args), job.secrets),
        options=shown(job.options),
        created_at=iso(job.created_at),
        ready_at=iso(job.ready_at),
        claimed_at=iso(job.claimed_at),
        finished_at=iso(job.finished_at),
        expires_at=iso(job.expires_at),
        deadline_at=iso(job.deadline_at),
        cancel_requested_at=iso(job.cancel_requested_at),
        progress=progress_answer(job.progress, mask),
        result=_masked_result(job),
        error=cause_answer(job.error, mask),
        unreadable=job.unreadable,
    )


def mask_of(job: Job) -> Mask:
    """The mask for texts of a job: covers the secrets of its arguments and its result.

    The job could not mask those of its result itself, as nobody knew yet that they are secret.
    """
    sources = [(job.args, job.secrets)] if job.secrets else []
    if job.result is not None and job.result_secrets:
        sources.append((job.result, job.result_secrets))
    return Mask(*sources)


def shown(text: str) -> Any:
    """The value of a JSON text of the store. For a text that is no JSON, the reason; without the
    text, which may hold secrets.
    """
    try:
        return msgspec.json.decode(text)
    except NONSENSE as error:
        return f"(cannot be read: {why(error)})"


def progress_answer(progress: Progress | None, mask: Mask = NO_MASK) -> ProgressAnswer | None:
    """How far a job is; None where it has reported nothing."""
    if progress is None:
        return None
    return ProgressAnswer(
        done=progress.done,
        total=progress.total,
        note=mask(progress.note),
        at=iso(progress.at),
    )


def _rules_answer(rules: Rules) -> RulesAnswer:
    differing = rules.record()
    if rules.key_rate is not None:
        differing["key_rate"] = str(rules.key_rate)
    if rules.unique_for is not None:
        differing["unique_for"] = spoken(timedelta(microseconds=rules.unique_for))
    return RulesAnswer(**differing)


def _masked_result(job: Job) -> Any:
    if job.result is None:
        return None
    # Wrapped in an object, so that a result which is secret as a whole has a path too.
    paths = tuple(f"result/{path}".rstrip("/") for path in job.result_secrets)
    return masked({"result": shown(job.result)}, paths)["result"]


def event_answer(event: Event, mask: Mask) -> EventAnswer:
    """An entry of the timeline."""
    return EventAnswer(
        at=iso(event.at),
        event=str(event.event),
        session=event.session,
        token=event.token,
        cause=cause_answer(event.cause, mask),
    )


def log_answer(line: LogLine, mask: Mask) -> LogAnswer:
    """A line of the log."""
    return LogAnswer(at=iso(line.at), level=line.level, message=mask(line.message))


def children_answer(store: Readable, id_: str) -> ChildrenAnswer | None:
    """How many children a job has in each state; None for a job without children."""
    counts: Counter[State] = Counter()
    failed: list[FailedChild] = []
    for jobs in Selection(parent=id_).pages(store):
        counts.update(job.state for job in jobs)
        ended_badly = [job for job in jobs if job.state is State.FAILED]
        failed += [
            FailedChild(id=job.id, task=job.task, error=cause_answer(job.error, mask_of(job)))
            for job in ended_badly[: MOST_FAILED - len(failed)]
        ]
    if not counts:
        return None
    by_state = {state: counts[state] for state in State if counts[state]}
    return ChildrenAnswer(counts=by_state, failed=tuple(failed))
