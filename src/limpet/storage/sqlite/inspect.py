"""The reading verbs for people."""

from collections.abc import Sequence
from typing import Any

from limpet.domain.event import Event, JobEvent
from limpet.domain.job import Job, JobFilter, JobList, LogLine
from limpet.domain.queue import QueueView
from limpet.domain.session import Session
from limpet.domain.state import State
from limpet.storage.contract.answers import Total
from limpet.storage.contract.bounds import page_size
from limpet.storage.contract.refusals import cursor_not_given
from limpet.storage.records.texts import rules_of_row, to_json
from limpet.storage.sql.rows import Row, SessionRow, event_of, job_of, session_of
from limpet.storage.sqlite.transaction import Transaction

_END = 2**62


def job(tx: Transaction, id_: str) -> Job | None:
    """One job, or None."""
    row = tx.one("inspect", "job", id=id_)
    return job_of(row) if row else None


def states(tx: Transaction, ids: Sequence[str]) -> dict[str, State]:
    """The states of those jobs that exist."""
    rows = tx.run("inspect", "states", ids=to_json(list(ids)))
    return {id_: State(state) for id_, state in rows}


def jobs(tx: Transaction, which: JobFilter, cursor: str | None, limit: int) -> JobList:
    """A page of jobs, newest first."""
    size = page_size(limit)
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise cursor_not_given(cursor)
    params: dict[str, Any] = {
        "before": _END if cursor is None else int(cursor),
        "queue": which.queue,
        "task": which.task,
        "limit": size + 1,
    }
    if which.state is None:
        rows = tx.run("inspect", "jobs", **params)
    elif which.state is State.RUNNING:
        rows = tx.run("inspect", "jobs_running", **params)
    else:
        rows = tx.run("inspect", "jobs_in_state", state=which.state, **params)
    more = len(rows) > size
    rows = rows[:size]
    return JobList(tuple(job_of(row) for row in rows), str(rows[-1][0]) if more else None)


def events(tx: Transaction, id_: str) -> tuple[Event, ...]:
    """The recorded events of a job, oldest first."""
    return tuple(event_of(id_, row) for row in tx.run("inspect", "events", id=id_))


def latest_events(tx: Transaction, limit: int) -> tuple[JobEvent, ...]:
    """The latest events of all jobs."""
    size = page_size(limit)
    rows = tx.run("inspect", "latest_events", before=_END, limit=size)
    return tuple(JobEvent(row[0], row[1], row[2], event_of(row[0], row[3:])) for row in rows)


def log(tx: Transaction, id_: str) -> tuple[LogLine, ...]:
    """The lines that a job wrote."""
    return tuple(LogLine(*row) for row in tx.run("inspect", "log", id=id_))


def queues(tx: Transaction) -> tuple[QueueView, ...]:
    """Every queue, with how many jobs are in each state."""
    counts: dict[str, dict[State, int]] = {}
    columns: dict[str, Row] = {}
    for name, state, count, *rest in tx.run("inspect", "queues"):
        of_it = counts.setdefault(name, {})
        columns[name] = tuple(rest)
        if count:
            of_it[State(state)] = count
    return tuple(_queue(tx, name, of_it, columns[name]) for name, of_it in counts.items())


def _queue(tx: Transaction, name: str, counts: dict[State, int], columns: Row) -> QueueView:
    paused, declared, adjusted, held_until, given_until, draining = columns
    declared_rules, set_now = rules_of_row(name, declared, adjusted)
    rules = set_now.over(declared_rules)
    full = rules.rate is not None and rules.rate.allowed(given_until, tx.now) < 1
    return QueueView(
        name,
        bool(paused),
        counts,
        _head(tx, name) if State.READY in counts else None,
        rules=rules,
        adjusted=set_now,
        held_until=held_until if held_until > tx.now else None,
        next_at=rules.rate.next_at(given_until, tx.now) if rules.rate and full else None,
        draining=bool(draining),
    )


def _head(tx: Transaction, queue: str) -> int | None:
    """Since when the first ready job in line has been ready, over all tasks."""
    heads = []
    for task, *_ in tx.run("claim", "tasks", queue=queue, tasks=""):
        for suspect in (0, 1):
            heads += tx.run("inspect", "head", queue=queue, task=task, suspect=suspect)
    return min(heads)[1] if heads else None


def sessions(
    tx: Transaction, *, with_dead: bool = False, one: str | None = None
) -> tuple[Session, ...]:
    """The sessions, newest first."""
    rows = tx.run("inspect", "sessions", with_dead=int(with_dead), one=one)
    return tuple(
        session_of(kept, over=kept.moment <= tx.now_lease or kept.boot != tx.boot)
        for kept in map(SessionRow._make, rows)
    )


def totals(tx: Transaction) -> tuple[Total, ...]:
    """How often each move was made, by queue."""
    return tuple(Total(*row) for row in tx.run("inspect", "totals"))


def epoch(tx: Transaction) -> str:
    """The store's epoch, which changes when the store is made anew."""
    row = tx.one("inspect", "store")
    return str(row[0]) if row else ""
