"""running → what the outcome of the attempt says, while its lease holds."""

from collections.abc import Mapping, Sequence
from typing import assert_never

import msgspec

from limpet.domain.cause import (
    Cause,
    DeadlinePassed,
    Requested,
    TooManyOrphans,
    TooManyStrikes,
    cause_of,
)
from limpet.domain.event import EventName
from limpet.domain.job import Counters
from limpet.domain.lease import Digest, digest
from limpet.domain.queue import sort_key
from limpet.domain.state import FINAL, WAITING, Move, State
from limpet.domain.transition import (
    MOVE_OF,
    Cancel,
    Complete,
    Fail,
    Loss,
    Orphan,
    Quarantine,
    Rejected,
    Release,
    RetryAt,
    Settlement,
    Snooze,
    after_loss,
)
from limpet.storage.sqlite.fence import Held, check
from limpet.storage.sqlite.transaction import LARGE, Transaction, Value
from limpet.storage.texts import to_json

# A suspect that ends an attempt in one of these ways has been seen to run alone.
_RAN_ALONE = frozenset({Move.RETRY, Move.SNOOZE})


def settle(
    tx: Transaction, session: str, settlements: Sequence[Settlement], *, alive: bool
) -> tuple[list[Rejected], Digest]:
    """Apply what may be applied; the digest is of what the session no longer holds."""
    rest = settlements
    completed = Digest()
    if alive and (done := [each for each in settlements if isinstance(each, Complete)]):
        tokens = {each.lease.job: each.lease.token for each in done}
        others = [each for each in settlements if not isinstance(each, Complete)]
        # Two words on one job are told apart one by one, and so is who said what too late.
        if _one_word_each(tokens, done, others) and _complete_all(tx, session, done, tokens):
            completed = digest(tokens.items())
            rest = others
    leases = [each.lease for each in rest]
    tried = [MOVE_OF[type(each)] for each in rest]
    held, rejected = check(tx, session, leases, tried, alive=alive)
    for place, row in held.items():
        _apply(tx, row, rest[place])
    given_up = digest((row.lease.job, row.lease.token) for row in held.values())
    return rejected, completed + given_up


def _one_word_each(
    tokens: Mapping[str, int], done: Sequence[Complete], others: Sequence[Settlement]
) -> bool:
    return len(tokens) == len(done) and not any(each.lease.job in tokens for each in others)


def _complete_all(
    tx: Transaction, session: str, done: Sequence[Complete], tokens: Mapping[str, int]
) -> bool:
    """Running → succeeded in as many statements for a thousand as for one.

    False, with nothing written, if one of the leases does not hold.
    """
    if {each.lease.session for each in done} != {session}:
        return False
    queues = tx.run("settle", "completing", leases=to_json(tokens), session=session)
    if sum(count for _, count, _, _ in queues) != len(done):
        return False
    for queue, count, numbers, failed_before in queues:
        _succeed(tx, queue, count, numbers, failed_before)
    _keep_results(tx, done)
    return True


def _succeed(tx: Transaction, queue: str, count: int, numbers: str, failed_before: str) -> None:
    tx.run("settle", "complete", numbers=numbers, now=tx.now)
    if failed_before != "[]":
        # What failed before left its error behind.
        tx.run("settle", "forget_error", numbers=failed_before)
    tx.moved(queue, Move.COMPLETE, State.RUNNING, State.SUCCEEDED, count)


def _keep_results(tx: Transaction, done: Sequence[Complete]) -> None:
    # A task that returns None leaves no row behind.
    results = [each for each in done if each.result != "null"]
    if not results:
        return
    small = {
        each.lease.job: each.result
        for each in results
        if len(each.result) <= LARGE and not each.secrets
    }
    if small:
        tx.run("settle", "results", values=to_json(small))
    if len(small) < len(results):
        tx.many(
            "settle",
            "result",
            (
                (each.result, to_json(each.secrets), each.lease.job)
                for each in results
                if each.lease.job not in small
            ),
        )


def _apply(tx: Transaction, row: Held, settlement: Settlement) -> None:
    match settlement:
        case Complete():
            failed_before = [] if row.counters == Counters() else [row.n]
            _succeed(tx, row.queue, 1, to_json([row.n]), to_json(failed_before))
            _keep_results(tx, [settlement])
        case RetryAt(at=at, error=error):
            _again(tx, row, Move.RETRY, at, error)
        case Snooze(at=at):
            _again(tx, row, Move.SNOOZE, at, None)
        case Fail(error=error):
            _move(tx, row, Move.FAIL, State.FAILED, EventName.FAILED, error, _failed_once(row))
        case Quarantine() if row.cancel_requested:
            # Nobody would repair a job that is not wanted; it would wait for ever.
            _cancel(tx, row, Move.CANCEL, None, row.counters)
        case Quarantine(error=error):
            move_to = State.QUARANTINED
            _move(tx, row, Move.QUARANTINE, move_to, EventName.QUARANTINED, error, row.counters)
        case Cancel():
            _cancel(tx, row, Move.CANCEL, None, row.counters)
        case Release(cause=cause):
            release_one(tx, row, cause)
        case Orphan(cause=cause, begun=begun, alone=alone):
            lose_one(
                tx,
                row,
                cause,
                move=Move.ORPHAN,
                begun=begun,
                charged=cause.charged,
                alone=alone,
                accepted=True,
            )
        case _:
            assert_never(settlement)


def _failed_once(row: Held) -> Counters:
    before = row.counters
    return Counters(before.failures + 1, before.orphans, before.strikes)


def _again(tx: Transaction, row: Held, move: Move, at: int, error: Cause | None) -> None:
    counters = _failed_once(row) if move is Move.RETRY else row.counters
    if row.cancel_requested:
        _cancel(tx, row, move, error, counters)
    elif row.deadline_at is not None and at >= row.deadline_at:
        late = DeadlinePassed(at=row.deadline_at)
        _move(tx, row, move, State.FAILED, EventName.FAILED, error or late, counters)
    else:
        event = EventName.RETRIED if move is Move.RETRY else EventName.SNOOZED
        _move(tx, row, move, State.SCHEDULED, event, error, counters, ready_at=at)


def release_one(tx: Transaction, row: Held, cause: Cause) -> None:
    """Running → ready in its old place, uncharged; → cancelled where that was requested."""
    if row.cancel_requested:
        _cancel(tx, row, Move.RELEASE, None, row.counters)
    else:
        _move(tx, row, Move.RELEASE, State.READY, EventName.RELEASED, cause, row.counters)


def lose_one(
    tx: Transaction,
    row: Held,
    cause: Cause,
    *,
    move: Move,
    begun: bool,
    charged: bool,
    alone: bool | None,
    accepted: bool,
) -> State:
    """Running → ready, failed at a cap, or cancelled where that was requested.

    `accepted`: the holder itself reported the loss, so a repeat of it is known. Otherwise the
    holder is dead, and whatever it still says is late.
    """
    if row.cancel_requested:
        _cancel(tx, row, move, cause, row.counters, accepted=accepted)
        return State.CANCELLED
    loss = after_loss(
        row.counters,
        begun=begun,
        charged=charged,
        alone=alone,
        suspect=row.suspect,
        last_run=row.last_run,
        has_orphan_hook=_has_orphan_hook(tx, row.n),
    )
    event = EventName.ORPHANED if move is Move.ORPHAN else EventName.RECOVERED
    if loss.target is State.FAILED:
        # The loss first, then what it led to, so that the timeline lists every cause.
        _record(tx, row, move, event, cause, accepted)
        capped = _capped(loss)
        _move(
            tx, row, move, State.FAILED, EventName.FAILED, capped, loss.counters, loss=loss,
            accepted=accepted,
        )  # fmt: skip
    else:
        _move(
            tx, row, move, State.READY, event, cause, loss.counters, loss=loss, accepted=accepted,
            begun=begun, keep_error=False,
        )  # fmt: skip
    return loss.target


def _capped(loss: Loss) -> Cause:
    if loss.capped == "strikes":
        return TooManyStrikes(count=loss.counters.strikes)
    return TooManyOrphans(count=loss.counters.orphans)


def _has_orphan_hook(tx: Transaction, n: int) -> bool:
    row = tx.one("settle", "options", n=n)
    return bool(row and msgspec.json.decode(row[0]).get("orphan_hook"))


def _cancel(
    tx: Transaction,
    row: Held,
    move: Move,
    error: Cause | None,
    counters: Counters,
    accepted: bool = True,
) -> None:
    why = error or _request(tx, row.n)
    _move(tx, row, move, State.CANCELLED, EventName.CANCELLED, why, counters, accepted=accepted)


def _request(tx: Transaction, n: int) -> Cause:
    """Why somebody asked for the cancellation, in their words."""
    asked = tx.one("settle", "request", n=n)
    return cause_of(msgspec.json.decode(asked[0])) if asked else Requested()


def _record(
    tx: Transaction, row: Held, move: Move, event: EventName, cause: Cause | None, accepted: bool
) -> None:
    tx.record(
        row.n,
        event,
        session=row.lease.session,
        token=row.lease.token,
        cause=cause,
        claimed_at=row.claimed_at,
        settled=move if accepted else None,
    )


def _move(
    tx: Transaction,
    row: Held,
    move: Move,
    target: State,
    event: EventName,
    cause: Cause | None,
    counters: Counters,
    *,
    ready_at: int | None = None,
    loss: Loss | None = None,
    accepted: bool = True,
    begun: bool = False,
    keep_error: bool = True,
) -> None:
    due = row.ready_at if ready_at is None else ready_at
    place = row.sort_key if ready_at is None else sort_key(ready_at, row.priority)
    # `expires` counts only until the first start, and time can pass only for what waits.
    started = row.begun or begun or move in _RAN_ALONE
    expires_at = None if started else row.expires_at
    ends = [at for at in (expires_at, row.deadline_at) if at is not None]
    values: tuple[Value, ...] = (
        target,
        # A dead holder loses its name on the row, so that it is never answered `already`.
        row.lease.session if accepted else None,
        place,
        due,
        tx.now if target in FINAL else None,
        counters.failures,
        counters.orphans,
        counters.strikes,
        int(loss.suspect if loss else row.suspect and move not in _RAN_ALONE),
        int(loss.last_run if loss else row.last_run),
        expires_at,
        min(ends, default=None) if target in WAITING else None,
        row.n,
    )
    tx.many("settle", "move", [values])
    tx.moved(row.queue, move, State.RUNNING, target)
    _record(tx, row, move, event, cause, accepted)
    # A job that was handed back has no error of its own, unless that was its end.
    if cause is not None and keep_error and (move is not Move.RELEASE or target in FINAL):
        tx.many("settle", "error", [(row.n, to_json(cause.record()))])
