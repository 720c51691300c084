"""Rows of a database as nouns of the domain; the columns are in the order of its views."""

from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from limpet.domain.event import Event
from limpet.domain.job import Counters, Job, Progress
from limpet.domain.session import Session, SessionKind, SessionLock, SessionState
from limpet.domain.state import State
from limpet.storage.texts import error_of, event_name, from_json, reason_of, rules_read

Row: TypeAlias = tuple[Any, ...]


def job_of(row: Row) -> Job:
    """A row of the view `job_view`."""
    progress = None if row[32] is None else Progress(row[32], row[33], row[34], row[35])
    return Job(
        id=row[1],
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
        rules=rules_read(row[41]),
        args=row[29],
        options=row[30],
        secrets=_secrets(row[31]),
        progress=progress,
        result=_result(State(row[4]), row[36]),
        error=error_of(row[37]),
        result_secrets=_secrets(row[38]),
    )


def _secrets(paths: str | None) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(paths, type=list[str])) if paths else ()


def _result(state: State, value: str | None) -> str | None:
    # A task that returns None leaves no row behind.
    return "null" if state is State.SUCCEEDED and value is None else value


def event_of(row: Row) -> Event:
    """A row of the events: at, event, session, token, cause, claimed_at."""
    at, event, session, token, cause, claimed_at = row
    return Event(at, event_name(event), session, token, error_of(cause), claimed_at)


def session_of(row: Row, *, over: bool) -> Session:
    """A row of the statement `inspect.sessions`; `over`: its moment has passed."""
    state = SessionState(row[6])
    return Session(
        id=row[0],
        kind=SessionKind(row[1]),
        name=row[2],
        host=row[3],
        pid=row[4],
        lease=timedelta(microseconds=row[5]),
        state=state,
        moment=row[7],
        overdue=state is not SessionState.DEAD and over,
        seq=row[9],
        holds=row[10],
        registered_at=row[11],
        renewed_at=row[12],
        ended_at=row[13],
        cause=error_of(row[14]),
        boot=row[8],
        lock=None if row[15] is None else msgspec.json.decode(row[15], type=SessionLock),
        schedules=from_json(row[16], frozenset[str]),
    )
