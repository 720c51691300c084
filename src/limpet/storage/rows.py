"""Rows of a database as nouns of the domain; the columns are in the order of its views."""

from datetime import timedelta
from typing import Any, TypeAlias

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
from limpet.storage.texts import cause_in, event_name, paths_in, reason_of, rules_in
from limpet.storage.unreadable import or_else

Row: TypeAlias = tuple[Any, ...]


def job_of(row: Row) -> Job:
    """A row of the view `job_view`."""
    progress = None if row[32] is None else Progress(row[32], row[33], row[34], row[35])
    id_ = row[1]
    faults: list[str] = []
    return Job(
        id=id_,
        task=row[2],
        queue=row[3],
        state=State(row[4]),
        priority=row[5],
        round=row[6],
        token=row[7],
        counters=Counters(row[8], row[9], row[10]),
        session=row[11],
        suspect=bool(row[12]),
        last_run=bool(row[13]),
        begun=bool(row[14]),
        created_at=row[15],
        ready_at=row[16],
        claimed_at=row[17],
        finished_at=row[18],
        expires_at=row[19],
        deadline_at=row[20],
        cancel_requested_at=row[21],
        blocked_by=reason_of(row[22]),
        parent=row[23],
        root=row[24],
        key=row[25],
        unique=row[26],
        weight_class=row[27],
        payload_version=row[28],
        pending=row[39],
        relaunch_at=row[40],
        rules=rules_in(id_, row[41], faults),
        args=row[29],
        options=row[30],
        secrets=paths_in("job", id_, row[31], "secrets", faults),
        progress=progress,
        result=_result(State(row[4]), row[36]),
        error=cause_in("job", id_, row[37], "error", faults),
        result_secrets=paths_in("job", id_, row[38], "result_secrets", faults),
        unreadable=tuple(faults),
    )


def _result(state: State, value: str | None) -> str | None:
    # A task that returns None leaves no row behind.
    return "null" if state is State.SUCCEEDED and value is None else value


def event_of(job: str, row: Row) -> Event:
    """A row of the events of that job: at, event, session, token, cause, claimed_at."""
    at, event, session, token, cause, claimed_at = row
    told = cause_in("job", job, cause, f"{event} event")
    return Event(at, event_name(event), session, token, told, claimed_at)


def session_of(row: Row, *, over: bool) -> Session:
    """A row of the statement `inspect.sessions`; `over`: its moment has passed."""
    id_ = row[0]
    faults: list[str] = []
    state = SessionState(row[6])
    return Session(
        id=id_,
        kind=SessionKind(row[1]),
        name=row[2],
        host=row[3],
        pid=row[4],
        lease=or_else("session", id_, "lease", lease_of, row[5], DEFAULT_LEASE, faults),
        state=state,
        moment=row[7],
        overdue=state is not SessionState.DEAD and over,
        seq=row[9],
        holds=row[10],
        registered_at=row[11],
        renewed_at=row[12],
        ended_at=row[13],
        cause=cause_in("session", id_, row[14], "cause", faults),
        boot=row[8],
        lock=lock_in(id_, row[15], faults),
        schedules=schedules_in(id_, row[16], faults),
        unreadable=tuple(faults),
    )


def lease_of(microseconds: int | str) -> timedelta:
    """A lease as a store keeps it."""
    number = int(microseconds)
    return timedelta(microseconds=whole_number(number, "lease", 1))


def lock_in(session: str, text: str | None, faults: list[str]) -> SessionLock | None:
    """The lock of a session; none where it cannot be read, so that the lease decides."""
    if not text:
        return None
    return or_else("session", session, "lock", _lock, text, None, faults)


def _lock(text: str) -> SessionLock | None:
    return msgspec.json.decode(text, type=SessionLock)


def schedules_in(session: str, text: str, faults: list[str]) -> frozenset[str]:
    """The ids of the schedules that a session declares; none where they cannot be read."""
    return or_else("session", session, "schedules", _ids, text, frozenset(), faults)


_ids = msgspec.json.Decoder(frozenset[str]).decode
