"""Rows of a database as objects of the domain; columns are named in the order of the views."""

from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

import msgspec

from limpet.domain.event import Event
from limpet.domain.job import Counters, Job, Progress
from limpet.domain.rate import whole_number
from limpet.domain.session import (
    DEFAULT_LEASE,
    Session,
    SessionKind,
    SessionLock,
    SessionState,
)
from limpet.domain.state import State
from limpet.storage.records.texts import cause_in, event_name, paths_in, reason_of, rules_in
from limpet.storage.records.unreadable import or_else

Row: TypeAlias = tuple[Any, ...]


class JobRow(NamedTuple):
    """The columns of the view `job_view`, which every store in SQL has."""

    n: int
    id: str
    task: str
    queue: str
    state: str
    priority: int
    round: int
    token: int
    failures: int
    orphans: int
    strikes: int
    session: str | None
    suspect: bool | int
    last_run: bool | int
    begun: bool | int
    created_at: int
    ready_at: int
    claimed_at: int | None
    finished_at: int | None
    expires_at: int | None
    deadline_at: int | None
    cancel_requested_at: int | None
    blocked: str | None
    parent: str | None
    root: str | None
    key: str | None
    unique_key: str | None
    weight_class: str | None
    payload_version: int
    args: str
    options: str
    secrets: str
    done: float | None
    total: float | None
    note: Any  # None if there is no progress; so is the next
    at: Any
    value: str | None
    error: str | None
    result_secrets: str | None
    pending: int
    relaunch_at: int | None
    rules: str | None


class SessionRow(NamedTuple):
    """The columns of the statement `inspect.sessions` that every store in SQL has."""

    id: str
    kind: str
    name: str
    host: str
    pid: int
    lease: int
    state: str
    moment: int
    boot: str
    seq: int
    held_count: int
    registered_at: int
    renewed_at: int
    ended_at: int | None
    cause: str | None
    lock: str | None
    schedules: str


def job_of(row: Row) -> Job:
    """A job from a row of the view `job_view`."""
    kept = JobRow._make(row)
    progress = None if kept.done is None else Progress(kept.done, kept.total, kept.note, kept.at)
    id_ = kept.id
    faults: list[str] = []
    return Job(
        id=id_,
        task=kept.task,
        queue=kept.queue,
        state=State(kept.state),
        priority=kept.priority,
        round=kept.round,
        token=kept.token,
        counters=Counters(kept.failures, kept.orphans, kept.strikes),
        session=kept.session,
        suspect=bool(kept.suspect),
        last_run=bool(kept.last_run),
        begun=bool(kept.begun),
        created_at=kept.created_at,
        ready_at=kept.ready_at,
        claimed_at=kept.claimed_at,
        finished_at=kept.finished_at,
        expires_at=kept.expires_at,
        deadline_at=kept.deadline_at,
        cancel_requested_at=kept.cancel_requested_at,
        blocked_by=reason_of(kept.blocked),
        parent=kept.parent,
        root=kept.root,
        key=kept.key,
        unique=kept.unique_key,
        weight_class=kept.weight_class,
        payload_version=kept.payload_version,
        pending=kept.pending,
        relaunch_at=kept.relaunch_at,
        rules=rules_in(id_, kept.rules, faults),
        args=kept.args,
        options=kept.options,
        secrets=paths_in("job", id_, kept.secrets, "secrets", faults),
        progress=progress,
        result=_result(State(kept.state), kept.value),
        error=cause_in("job", id_, kept.error, "error", faults),
        result_secrets=paths_in("job", id_, kept.result_secrets, "result_secrets", faults),
        unreadable=tuple(faults),
    )


def _result(state: State, value: str | None) -> str | None:
    # A task that returns None leaves no row behind.
    return "null" if state is State.SUCCEEDED and value is None else value


def event_of(job: str, row: Row) -> Event:
    """An event of a job from a row: at, event, session, token, cause, claimed_at."""
    at, event, session, token, cause, claimed_at = row
    read_cause = cause_in("job", job, cause, f"{event} event")
    return Event(at, event_name(event), session, token, read_cause, claimed_at)


def session_of(kept: SessionRow, *, over: bool) -> Session:
    """A row of the statement `inspect.sessions`; `over`: its moment has passed."""
    id_ = kept.id
    faults: list[str] = []
    state = SessionState(kept.state)
    return Session(
        id=id_,
        kind=SessionKind(kept.kind),
        name=kept.name,
        host=kept.host,
        pid=kept.pid,
        lease=or_else("session", id_, "lease", lease_of, kept.lease, DEFAULT_LEASE, faults),
        state=state,
        moment=kept.moment,
        overdue=state is not SessionState.DEAD and over,
        seq=kept.seq,
        holds=kept.held_count,
        registered_at=kept.registered_at,
        renewed_at=kept.renewed_at,
        ended_at=kept.ended_at,
        cause=cause_in("session", id_, kept.cause, "cause", faults),
        boot=kept.boot,
        lock=lock_in(id_, kept.lock, faults),
        schedules=schedules_in(id_, kept.schedules, faults),
        unreadable=tuple(faults),
    )


def lease_of(microseconds: int | str) -> timedelta:
    """A lease from the number that a store keeps."""
    number = int(microseconds)
    return timedelta(microseconds=whole_number(number, "lease", 1))


def lock_in(session: str, text: str | None, faults: list[str]) -> SessionLock | None:
    """The lock of a session; None if it cannot be read, so that the lease decides."""
    if not text:
        return None
    return or_else("session", session, "lock", _lock, text, None, faults)


def _lock(text: str) -> SessionLock | None:
    return msgspec.json.decode(text, type=SessionLock)


def schedules_in(session: str, text: str, faults: list[str]) -> frozenset[str]:
    """The ids of the schedules that a session declares; none if they cannot be read."""
    return or_else("session", session, "schedules", _ids, text, frozenset(), faults)


_ids = msgspec.json.Decoder(frozenset[str]).decode
