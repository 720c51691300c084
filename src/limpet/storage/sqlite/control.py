"""Interventions by a person: cancel, retry, repair or requeue a job; pause a queue."""

from collections import Counter
from collections.abc import Sequence

from limpet.domain.cause import Requested
from limpet.domain.errors import JobNotFound
from limpet.domain.event import EventName
from limpet.domain.queue import sort_key
from limpet.domain.state import FINAL, Move, State
from limpet.storage.contract.refusals import not_finished, not_quarantined, unique_held
from limpet.storage.records.texts import repaired, to_json
from limpet.storage.sql.rows import Row
from limpet.storage.sqlite.after import after, stop
from limpet.storage.sqlite.keys import become_ready, waiting_of
from limpet.storage.sqlite.relocate import must_take_writes
from limpet.storage.sqlite.transaction import Transaction
from limpet.storage.sqlite.unique import take_again


def _find(tx: Transaction, job: str) -> Row:
    must_take_writes(tx)
    row = tx.one("control", "find", id=job)
    if row is None:
        raise JobNotFound(job)
    return row


def cancel(tx: Transaction, job: str, reason: str) -> State:
    """Cancel a job, or request that its holder does; see `ControlVerbs.cancel`."""
    n, state, queue, _, _, token, session, claimed_at, _, requested_at = _find(tx, job)
    source = State(state)
    if source in FINAL:
        tx.run("control", "not_again", n=n)
        return source
    if source is State.RUNNING and requested_at is not None:
        return source
    if not stop(tx, (n, queue, state, session, token, claimed_at), Requested(reason=reason)):
        return source
    after(tx, [n])
    return State.CANCELLED


def retry(tx: Transaction, job: str, round_seen: int) -> int:
    """Open a new round; see `ControlVerbs.retry`."""
    row = _find(tx, job)
    source, round_ = State(row[1]), int(row[3])
    if round_ == round_seen + 1:
        return round_
    if source not in FINAL or round_ != round_seen:
        raise not_finished(job, source, round_, round_seen)
    if not reopen(tx, row, EventName.REOPENED):
        raise unique_held(job)
    return round_ + 1


def reopen(tx: Transaction, row: Row, event: EventName) -> bool:
    """Final → ready, or blocked for its key, in a new round; False if another job holds its
    `unique`. The row is that of the statement `find`.
    """
    n, state, _, _, priority, token, session, claimed_at, finished_at, _ = row
    if not take_again(tx, n):
        return False
    if state == State.SUCCEEDED:
        # The success itself wrote no event, and this row is about to lose it.
        tx.record(
            n,
            EventName.SUCCEEDED,
            session=session,
            token=token,
            claimed_at=claimed_at,
            settled=Move.COMPLETE,
            at=finished_at,
        )
    tx.run("control", "reopen", n=n, now=tx.now, sort_key=sort_key(tx.now, priority))
    tx.run("control", "forget_result", n=n)
    tx.run("control", "forget_progress", n=n)
    tx.record(n, event)
    _go_on(tx, n, Move.REOPEN)
    return True


def _go_on(tx: Transaction, n: int, move: Move) -> State:
    """→ ready, or blocked for its key; the row still has the old state."""
    jobs = [waiting_of(row) for row in tx.run("keys", "waiting", numbers=to_json([n]))]
    return State.READY if n in become_ready(tx, jobs, move) else State.BLOCKED


def repair(
    tx: Transaction, job: str, args: str, payload_version: int, secrets: Sequence[str]
) -> State:
    """Let a quarantined job run with other arguments; see `RepairVerbs.repair`."""
    n, state, _, _, priority, *_ = _find(tx, job)
    if state != State.QUARANTINED:
        raise not_quarantined(job, State(state))
    place = sort_key(tx.now, priority)
    tx.run("control", "repair", n=n, now=tx.now, sort_key=place, version=payload_version)
    ((options,),) = tx.run("settle", "options", n=n) or [("{}",)]
    tx.run(
        "control",
        "repair_payload",
        n=n,
        args=args,
        options=repaired(options),
        secrets=to_json(list(secrets)),
    )
    tx.run("control", "forget_result", n=n)
    tx.record(n, EventName.REPAIRED)
    return _go_on(tx, n, Move.REPAIR)


def requeue(tx: Transaction, jobs: Sequence[str], queue: str) -> int:
    """Move waiting jobs to another queue; see `RepairVerbs.requeue`."""
    must_take_writes(tx)
    rows = tx.run("control", "movable", ids=to_json(list(jobs)), queue=queue)
    tx.many("control", "requeue", ((queue, n) for n, _, _ in rows))
    for n, _, _ in rows:
        tx.record(n, EventName.REQUEUED)
    for (source, state), count in Counter((was, state) for _, was, state in rows).items():
        tx.requeued(source, queue, State(state), count)
    return len(rows)


def pause(tx: Transaction, queue: str, paused: bool) -> None:
    """Stop or resume claiming from a queue."""
    must_take_writes(tx)
    tx.run("control", "pause", queue=queue, paused=int(paused))
