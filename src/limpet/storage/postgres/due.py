"""What time brings about: promote what is due, prune what is old."""

from collections.abc import Mapping
from datetime import timedelta

from limpet.domain.duration import microseconds
from limpet.domain.queue import REPEAT_WINDOW
from limpet.domain.state import State
from limpet.storage.answers import Promoted, Pruned
from limpet.storage.base import CHUNK
from limpet.storage.bounds import SESSIONS_KEPT
from limpet.storage.outcome import lapsed
from limpet.storage.postgres.lists import column
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.rows import Row
from limpet.storage.texts import to_json


def promote(tx: Transaction) -> Promoted:
    """Scheduled → ready, waiting → too late; see `SweepVerbs.promote`."""
    ((now,),) = tx.run("recover", "time", given=tx.wall)
    late = tx.run("due", "late", now=now, limit=CHUNK)
    if late:
        tx.call("lapse", to_json([_lapse(row, now) for row in late]), now)
    ((ready,),) = tx.call("promote", now)
    next_due = tx.one("due", "next_due")
    return Promoted(
        ready=ready,
        lapsed=len(late),
        more=CHUNK in (ready, len(late)),
        next_due=next_due[0] if next_due else None,
    )


def _lapse(row: Row, now: int) -> dict[str, str]:
    job, expires_at, deadline_at = row
    target, told = lapsed(expires_at, deadline_at, now)
    assert told.cause is not None
    return {
        "id": job,
        "target": target,
        "event": told.event,
        "cause": to_json(told.cause.record()),
    }


def prune(tx: Transaction, retention: Mapping[State, timedelta]) -> Pruned:
    """Remove finished jobs and dead sessions; see `SweepVerbs.prune`."""
    ((now,),) = tx.run("recover", "time", given=tx.wall)
    left = CHUNK
    created_before = now - microseconds(REPEAT_WINDOW)
    for state, kept in retention.items():
        ((gone,),) = tx.call("prune", state, now - microseconds(kept), created_before, left)
        left -= gone
        if left == 0:
            return Pruned(CHUNK, 0, more=True)
    sessions = _prune_sessions(tx, now, left)
    return Pruned(CHUNK - left, sessions, more=sessions == left)


def _prune_sessions(tx: Transaction, now: int, limit: int) -> int:
    before = now - microseconds(SESSIONS_KEPT)
    rows = tx.run("due", "old_sessions", ended_before=before, limit=limit)
    if rows:
        ids = column([row[0] for row in rows])
        tx.run("due", "alone")
        tx.run("due", "forget_holds", ids=ids)
        tx.run("due", "forget_sessions", ids=ids)
        tx.run("due", "forget_tasksets")
    return len(rows)
