"""The effects of time: promote what is due, prune what is old."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from limpet.domain.duration import microseconds
from limpet.domain.event import EventName
from limpet.domain.queue import REPEAT_WINDOW
from limpet.domain.state import Move, State
from limpet.storage.contract.answers import Promoted, Pruned
from limpet.storage.contract.bounds import SESSIONS_KEPT
from limpet.storage.contract.store import CHUNK
from limpet.storage.records.texts import to_json
from limpet.storage.sql.outcome import lapsed
from limpet.storage.sql.rows import Row
from limpet.storage.sqlite.after import after
from limpet.storage.sqlite.control import reopen
from limpet.storage.sqlite.flow import write_out
from limpet.storage.sqlite.keys import become_ready, serve_due, waiting_of
from limpet.storage.sqlite.relocate import must_take_writes
from limpet.storage.sqlite.transaction import Transaction

# How far, by state, a call has looked through finished jobs; the next call goes on from there.
Passed = dict[State, tuple[int, int]]
_MOST_SEEN = 5_000


def promote(tx: Transaction) -> Promoted:
    """Let time take effect, and finish what other steps left; see `SweepVerbs.promote`."""
    must_take_writes(tx)
    late = tx.run("promote", "late", now=tx.now, limit=CHUNK)
    for row in late:
        _lapse(tx, row)
    # Before anything else: a lapsed job must neither keep its turn nor be given one.
    after(tx, [row[0] for row in late])
    due = [waiting_of(row) for row in tx.run("promote", "due", now=tx.now, limit=CHUNK)]
    ready = len(become_ready(tx, due, Move.PROMOTE))
    again = tx.run("promote", "again", now=tx.now, limit=CHUNK)
    ready += sum(_relaunch(tx, row) for row in again)
    served, turns_left = serve_due(tx)
    written, flows_left = write_out(tx)
    # Last, so that it finds all jobs whose parents the steps above have ended.
    tx.unfinished = False
    after(tx, (), cascade=True)
    left = turns_left or flows_left or tx.unfinished
    ((next_due,),) = tx.run("promote", "next_due")
    return Promoted(
        ready=ready + served + written,
        lapsed=len(late),
        more=left or CHUNK in (len(due), len(late), len(again)),
        next_due=tx.now if left else next_due,
    )


def _lapse(tx: Transaction, row: Row) -> None:
    n, queue, state, expires_at, deadline_at = row
    target, entry = lapsed(expires_at, deadline_at, tx.now)
    assert entry.cause is not None
    tx.many("promote", "lapse", [(target, tx.now, n)])
    tx.many("settle", "error", [(n, to_json(entry.cause.record()))])
    tx.many("session", "forget_block", [(n,)])
    tx.record(n, entry.event, cause=entry.cause)
    tx.moved(queue, Move.EXPIRE, State(state), target)


def _relaunch(tx: Transaction, row: Row) -> bool:
    """Failed → ready in a new round, unless it is no longer wanted; answers whether it is ready."""
    alone, job = row[0], row[1:]
    if alone and reopen(tx, job, EventName.RELAUNCHED):
        ((state,),) = tx.run("promote", "state", n=job[0])
        return bool(state == State.READY)
    tx.run("control", "not_again", n=job[0])
    return False


def prune(
    tx: Transaction,
    retention: Mapping[State, timedelta],
    queues: Mapping[str, Mapping[State, timedelta]] | None,
    passed: Passed,
) -> Pruned:
    """Remove finished jobs and dead sessions; see `SweepVerbs.prune`."""
    must_take_writes(tx)
    own: dict[State, dict[str, timedelta]] = {}
    for queue, by_state in (queues or {}).items():
        for state, kept in by_state.items():
            own.setdefault(state, {})[queue] = kept
    left = CHUNK
    for state, kept in retention.items():
        if state not in own:
            left -= _remove(tx, state, _old(tx, state, kept, left))
    for state, by_queue in own.items():
        if left == 0:
            break
        numbers = _old_by_queue(tx, state, retention.get(state), by_queue, left, passed)
        left -= _remove(tx, state, _old_of(tx, numbers))
    if left == 0:
        return Pruned(CHUNK, 0, more=True)
    staged = _prune_flows(tx, left)
    tx.run("keys", "forget_idle", now=tx.now, limit=left)
    sessions = _prune_sessions(tx, left)
    unseen = bool(passed.keys() & own.keys())
    return Pruned(CHUNK - left, sessions, more=unseen or left in (sessions, staged))


def _old(tx: Transaction, state: State, kept: timedelta, limit: int) -> list[Row]:
    return tx.run(
        "prune",
        "old",
        state=state,
        finished_before=tx.now - microseconds(kept),
        created_before=tx.now - microseconds(REPEAT_WINDOW),
        now=tx.now,
        limit=limit,
    )


def _old_by_queue(
    tx: Transaction,
    state: State,
    kept: timedelta | None,
    by_queue: Mapping[str, timedelta],
    limit: int,
    passed: Passed,
) -> list[int]:
    """The numbers of jobs that are older than the retention of their queue.

    No index has the queue, and many jobs may have to stay. So each call looks at a limited number
    of jobs, and the next call goes on behind them.
    """
    before = {queue: tx.now - microseconds(keep) for queue, keep in by_queue.items()}
    others = tx.now - microseconds(kept) if kept is not None else None
    latest = max([*before.values(), *([] if others is None else [others])])
    finished_at, n = passed.pop(state, (0, 0))
    rows = tx.run(
        "prune",
        "finished",
        state=state,
        finished_before=latest,
        finished_at=finished_at,
        n=n,
        limit=_MOST_SEEN,
    )
    numbers: list[int] = []
    for n, queue, finished_at in rows:
        until = before.get(queue, others)
        if until is not None and finished_at < until:
            numbers.append(n)
            if len(numbers) == limit:
                break
    if rows and (n != rows[-1][0] or len(rows) == _MOST_SEEN):
        passed[state] = finished_at, n
    return numbers


def _old_of(tx: Transaction, numbers: list[int]) -> list[Row]:
    created_before = tx.now - microseconds(REPEAT_WINDOW)
    listed = to_json(numbers)
    return tx.run("prune", "old_of", numbers=listed, created_before=created_before, now=tx.now)


def _remove(tx: Transaction, state: State, rows: list[Row]) -> int:
    numbers = [(row[0],) for row in rows]
    for table in ("job", "payload", "result", "events", "progress", "log"):
        tx.many("prune", table, numbers)
    for queue, count in Counter(row[1] for row in rows).items():
        tx.removed(queue, state, count)
    return len(rows)


def _prune_flows(tx: Transaction, limit: int) -> int:
    """Remove chunks not committed in time, and the names of flows written out long ago."""
    before = tx.now - microseconds(REPEAT_WINDOW)
    tx.run("flow", "old", before=before, limit=limit)
    staged = tx.changed()
    tx.run("flow", "forget", before=before, limit=limit)
    return max(staged, tx.changed())


def _prune_sessions(tx: Transaction, limit: int) -> int:
    before = tx.now - microseconds(SESSIONS_KEPT)
    rows = tx.run("prune", "old_sessions", ended_before=before, limit=limit)
    tx.many("prune", "session", rows)
    tx.many("prune", "answer", rows)
    if rows:
        tx.run("prune", "tasksets")
    return len(rows)
