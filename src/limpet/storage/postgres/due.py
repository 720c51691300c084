"""What becomes due with time: promote jobs that are due, prune what is old."""

from collections.abc import Mapping
from datetime import timedelta

from limpet.domain.duration import microseconds
from limpet.domain.queue import REPEAT_WINDOW
from limpet.domain.state import State
from limpet.storage.contract.answers import Promoted, Pruned
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.bounds import SESSIONS_KEPT
from limpet.storage.contract.store import CHUNK
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.flow import MOST_FLOWS, forget_old, write_out
from limpet.storage.postgres.lists import column
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.texts import to_json
from limpet.storage.sql.outcome import lapsed
from limpet.storage.sql.rows import Row


def promote(database: Database) -> Promoted:
    """Move what is due, and finish what other transactions left; see `SweepVerbs.promote`.

    A transaction for each part, because a transaction may lock keys only once
    (functions/06_turns.sql, locks).
    """
    now, lapsed_ = database.write(_lapse_late)
    ((due, ready),) = database.once(lambda tx: tx.call("due", now))
    ((again, relaunched),) = database.once(lambda tx: tx.call("relaunch", now))
    turns = database.once(lambda tx: _notes(tx, now))
    written = write_out(database)
    ((left, next_due),) = database.once(lambda tx: tx.run("due", "left"))
    return Promoted(
        ready=ready + relaunched + turns + written,
        lapsed=lapsed_,
        more=left or CHUNK in (due, again, lapsed_),
        next_due=now if left else next_due,
    )


def _lapse_late(tx: Transaction) -> tuple[int, int]:
    ((now,),) = tx.run("recover", "time", given=tx.wall)
    late = tx.run("due", "late", now=now, limit=CHUNK)
    if late:
        tx.call("lapse", to_json([_lapse(row, now) for row in late]), now)
    return now, len(late)


def _notes(tx: Transaction, now: int) -> int:
    ((turns, _),) = tx.call("notes", now, True)
    if turns:
        tx.rings.add(Topic.READY)
    return int(turns)


def _lapse(row: Row, now: int) -> dict[str, str]:
    job, expires_at, deadline_at = row
    target, entry = lapsed(expires_at, deadline_at, now)
    assert entry.cause is not None
    return {
        "id": job,
        "target": target,
        "event": entry.event,
        "cause": to_json(entry.cause.record()),
    }


def prune(
    tx: Transaction,
    retention: Mapping[State, timedelta],
    queues: Mapping[str, Mapping[State, timedelta]] | None,
) -> Pruned:
    """Remove finished jobs and dead sessions; see `SweepVerbs.prune`."""
    ((now,),) = tx.run("recover", "time", given=tx.wall)
    left = CHUNK
    created_before = now - microseconds(REPEAT_WINDOW)
    own = [
        (queue, state, kept)
        for queue, rules in (queues or {}).items()
        for state, kept in rules.items()
    ]
    # The queues with a retention of their own, then all the others.
    every = [*own, *((None, state, kept) for state, kept in retention.items())]
    for queue, state, kept in every:
        others = [name for name, of, _ in own if of is state] if queue is None else []
        before = now - microseconds(kept)
        ((gone,),) = tx.call(
            "remove", state, before, created_before, left, queue, column(others), now
        )
        left -= gone
        if left == 0:
            return Pruned(CHUNK, 0, more=True)
    flows = forget_old(tx, created_before)
    tx.run("limits", "idle_keys", now=now)
    sessions = _prune_sessions(tx, now, left)
    return Pruned(CHUNK - left, sessions, more=sessions == left or flows == MOST_FLOWS)


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
