"""What a person can look at: reads only."""

from collections.abc import Sequence

from limpet.domain.event import Event, JobEvent
from limpet.domain.ids import is_id
from limpet.domain.job import Job, JobFilter, JobList, LogLine
from limpet.domain.queue import QueueView
from limpet.domain.session import Session
from limpet.domain.state import State
from limpet.storage.contract.answers import Total
from limpet.storage.contract.bounds import page_size
from limpet.storage.contract.refusals import cursor_not_given
from limpet.storage.postgres.lists import column
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.texts import rules_of_row
from limpet.storage.sql.rows import Row, SessionRow, event_of, job_of, session_of

# After every id.
_END = "~"


def job(tx: Transaction, id_: str) -> Job | None:
    """One job, or None."""
    row = tx.one("inspect", "job", id=id_)
    return job_of(row) if row else None


def states(tx: Transaction, ids: Sequence[str]) -> dict[str, State]:
    """The states of those jobs that exist."""
    rows = tx.run("inspect", "states", ids=column(list(ids))) if ids else []
    return {id_: State(state) for id_, state in rows}


def jobs(tx: Transaction, which: JobFilter, cursor: str | None, limit: int) -> JobList:
    """A page of jobs, newest first; ids sort by time, and a cursor is the last id of a page."""
    size = page_size(limit)
    if cursor is not None and not is_id(cursor):
        raise cursor_not_given(cursor)
    params: dict[str, object] = {
        "before": _END if cursor is None else cursor,
        "queue": which.queue,
        "task": which.task,
        "limit": size + 1,
    }
    if which.state is None:
        rows = tx.run("inspect", "jobs", **params)
    else:
        rows = tx.run("inspect", "jobs_in_state", state=str(which.state), **params)
    more = len(rows) > size
    rows = rows[:size]
    return JobList(tuple(job_of(row) for row in rows), str(rows[-1][1]) if more else None)


def events(tx: Transaction, id_: str) -> tuple[Event, ...]:
    """The recorded events of a job, oldest first."""
    return tuple(event_of(id_, row) for row in tx.run("inspect", "events", id=id_))


def latest_events(tx: Transaction, limit: int) -> tuple[JobEvent, ...]:
    """The events that were recorded last, of any job."""
    rows = tx.run("inspect", "latest_events", limit=page_size(limit))
    return tuple(JobEvent(row[0], row[1], row[2], event_of(row[0], row[3:])) for row in rows)


def log(tx: Transaction, id_: str) -> tuple[LogLine, ...]:
    """The lines that a job wrote."""
    return tuple(LogLine(*row) for row in tx.run("inspect", "log", id=id_))


def queues(tx: Transaction) -> tuple[QueueView, ...]:
    """Every queue, with how many jobs are in each state, and its rules."""
    counts: dict[str, dict[State, int]] = {}
    heads: dict[str, int | None] = {}
    for name, state, count, head in tx.run("inspect", "queues"):
        heads[name] = head
        of_queue = counts.setdefault(name, {})
        if count:
            of_queue[State(state)] = count
    rules = {row[0]: row[1:] for row in tx.run("inspect", "queue_rules", wall=tx.wall)}
    return tuple(_view(name, counts[name], heads[name], rules.get(name)) for name in counts)


def _view(name: str, counts: dict[State, int], head: int | None, row: Row | None) -> QueueView:
    if row is None:
        return QueueView(name, False, counts, head)
    paused, declared, adjusted, held_until, given_until, draining, now = row
    declared_rules, set_now = rules_of_row(name, declared, adjusted)
    rules = set_now.over(declared_rules)
    begins = rules.rate.next_at(given_until, now) if rules.rate else now
    return QueueView(
        name,
        paused,
        counts,
        head,
        rules,
        set_now,
        held_until if held_until > now else None,
        begins if begins > now else None,
        draining,
    )


def sessions(
    tx: Transaction, *, with_dead: bool = False, one: str | None = None
) -> tuple[Session, ...]:
    """The sessions, newest first."""
    rows = tx.run("inspect", "sessions", with_dead=with_dead, one=one, lease=tx.lease)
    return tuple(session_of(SessionRow._make(columns), over=over) for *columns, over in rows)


def totals(tx: Transaction) -> tuple[Total, ...]:
    """How often each move was made, by queue."""
    return tuple(Total(*row) for row in tx.run("inspect", "totals"))
