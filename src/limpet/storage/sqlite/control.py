"""What a person does to a job: cancel, retry; and to a queue: pause."""

from limpet.domain.cause import Requested
from limpet.domain.errors import JobNotFound
from limpet.domain.event import EventName
from limpet.domain.queue import sort_key
from limpet.domain.state import FINAL, Move, State
from limpet.storage.base import Topic
from limpet.storage.refusals import not_finished
from limpet.storage.rows import Row
from limpet.storage.sqlite.relocate import must_take_writes
from limpet.storage.sqlite.transaction import Transaction
from limpet.storage.texts import to_json


def _find(tx: Transaction, job: str) -> Row:
    must_take_writes(tx)
    row = tx.one("control", "find", id=job)
    if row is None:
        raise JobNotFound(job)
    return row


def cancel(tx: Transaction, job: str, reason: str) -> State:
    """Cancel, or ask the holder to; see `ControlVerbs.cancel`."""
    n, state, queue, _, _, token, session, claimed_at, _, requested_at = _find(tx, job)
    source = State(state)
    if source in FINAL:
        return source
    cause = Requested(reason=reason)
    if source is State.RUNNING:
        if requested_at is None:
            tx.run("control", "request", n=n, now=tx.now)
            tx.bells.add(Topic.CANCEL)
            tx.record(
                n,
                EventName.CANCEL_REQUESTED,
                session=session,
                token=token,
                cause=cause,
                claimed_at=claimed_at,
            )
        return source
    tx.run("control", "cancel", n=n, now=tx.now)
    tx.many("session", "forget_block", [(n,)])
    tx.many("settle", "error", [(n, to_json(cause.record()))])
    tx.record(n, EventName.CANCELLED, cause=cause)
    tx.moved(queue, Move.CANCEL, source, State.CANCELLED)
    return State.CANCELLED


def retry(tx: Transaction, job: str, round_seen: int) -> int:
    """Open a new round; see `ControlVerbs.retry`."""
    n, state, queue, round_, priority, token, session, claimed_at, finished_at, _ = _find(tx, job)
    source = State(state)
    if round_ == round_seen + 1:
        return int(round_)
    if source not in FINAL or round_ != round_seen:
        raise not_finished(job, source, int(round_), round_seen)
    if source is State.SUCCEEDED:
        # It wrote no event when it happened, and the row is about to forget it.
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
    tx.record(n, EventName.REOPENED)
    tx.moved(queue, Move.REOPEN, source, State.READY)
    return int(round_) + 1


def pause(tx: Transaction, queue: str, paused: bool) -> None:
    """Stop or resume claiming from a queue."""
    must_take_writes(tx)
    tx.run("control", "pause", queue=queue, paused=int(paused))
