"""What time brings about: promote what is due, prune what is old."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from limpet.domain.duration import microseconds
from limpet.domain.queue import REPEAT_WINDOW
from limpet.domain.state import Move, State
from limpet.storage.answers import Promoted, Pruned
from limpet.storage.base import CHUNK
from limpet.storage.bounds import SESSIONS_KEPT
from limpet.storage.outcome import lapsed
from limpet.storage.rows import Row
from limpet.storage.sqlite.relocate import must_take_writes
from limpet.storage.sqlite.transaction import Transaction
from limpet.storage.texts import to_json


def promote(tx: Transaction) -> Promoted:
    """Scheduled → ready, waiting → too late; see `SweepVerbs.promote`."""
    must_take_writes(tx)
    late = tx.run("promote", "late", now=tx.now, limit=CHUNK)
    for row in late:
        _lapse(tx, row)
    due = tx.run("promote", "due", now=tx.now, limit=CHUNK)
    tx.many("promote", "ready", ((row[0],) for row in due))
    for queue, count in Counter(row[1] for row in due).items():
        tx.moved(queue, Move.PROMOTE, State.SCHEDULED, State.READY, count)
    next_due = tx.one("promote", "next_due")
    return Promoted(
        ready=len(due),
        lapsed=len(late),
        more=CHUNK in (len(due), len(late)),
        next_due=next_due[0] if next_due else None,
    )


def _lapse(tx: Transaction, row: Row) -> None:
    n, queue, state, expires_at, deadline_at = row
    target, told = lapsed(expires_at, deadline_at, tx.now)
    assert told.cause is not None
    tx.many("promote", "lapse", [(target, tx.now, n)])
    tx.many("settle", "error", [(n, to_json(told.cause.record()))])
    tx.many("session", "forget_block", [(n,)])
    tx.record(n, told.event, cause=told.cause)
    tx.moved(queue, Move.EXPIRE, State(state), target)


def prune(tx: Transaction, retention: Mapping[State, timedelta]) -> Pruned:
    """Remove finished jobs and dead sessions; see `SweepVerbs.prune`."""
    must_take_writes(tx)
    left = CHUNK
    created_before = tx.now - microseconds(REPEAT_WINDOW)
    for state, kept in retention.items():
        finished_before = tx.now - microseconds(kept)
        rows = tx.run(
            "prune",
            "old",
            state=state,
            finished_before=finished_before,
            created_before=created_before,
            limit=left,
        )
        numbers = [(row[0],) for row in rows]
        for table in ("job", "payload", "result", "events", "progress", "log"):
            tx.many("prune", table, numbers)
        for queue, count in Counter(row[1] for row in rows).items():
            tx.removed(queue, state, count)
        left -= len(rows)
        if left == 0:
            return Pruned(CHUNK, 0, more=True)
    sessions = _prune_sessions(tx, left)
    return Pruned(CHUNK - left, sessions, more=sessions == left)


def _prune_sessions(tx: Transaction, limit: int) -> int:
    before = tx.now - microseconds(SESSIONS_KEPT)
    rows = tx.run("prune", "old_sessions", ended_before=before, limit=limit)
    tx.many("prune", "session", rows)
    tx.many("prune", "answer", rows)
    if rows:
        tx.run("prune", "tasksets")
    return len(rows)
