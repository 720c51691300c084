"""The hot path: settle and claim in one step, with the same answer for the same `seq`.

Where every settled job has succeeded, this is one call. Other settlements are checked first, then
decided here, and carried out by the same call, all in one transaction.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import msgspec
import psycopg

from limpet.domain.breaker import Observed
from limpet.domain.job import ClaimedJob, Counters
from limpet.domain.lease import Lease
from limpet.domain.permit import PassedOver
from limpet.domain.session import Standing
from limpet.domain.transition import MOVE_OF, Complete, Rejected, Settlement
from limpet.storage.contract.answers import Exchanged
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.refusals import (
    exchange_forgotten,
    exchange_too_old,
    session_not_known,
)
from limpet.storage.contract.store import Want
from limpet.storage.postgres.breakers import record_observed
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.fence import check
from limpet.storage.postgres.lists import column, nullable
from limpet.storage.postgres.permits import gate_record
from limpet.storage.postgres.settle import listed, settled
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.claimed import claimed_of
from limpet.storage.records.texts import to_json
from limpet.storage.sql.rows import Row

_NOT_HELD = "LP001"
# Longer than the lock timeout; a worker that has settlements to send cannot wait for longer.
_SECONDS = 12.0


class _NotHeld(Exception):
    """A job to be completed is not held; nothing was written."""


def exchange(
    database: Database,
    session: str,
    seq: int,
    settlements: Sequence[Settlement],
    want: Want | None,
    begun: Sequence[Lease],
    observations: Sequence[Observed],
) -> Exchanged:
    """Settle and claim; see `HolderVerbs.exchange`."""
    done = [settlement for settlement in settlements if isinstance(settlement, Complete)]
    others = [settlement for settlement in settlements if not isinstance(settlement, Complete)]
    if _one_settlement_each(session, done, others):
        try:
            if not others and not observations and not any(job.counts for job in done):
                return database.once(
                    lambda tx: _call(tx, session, seq, done, want, begun), seconds=_SECONDS
                )
            return database.write(
                lambda tx: _decide(tx, session, seq, done, others, want, begun, observations),
                seconds=_SECONDS,
            )
        except _NotHeld:
            pass  # settle again one by one, which finds the leases that are lost
    return database.write(
        lambda tx: _decide(tx, session, seq, [], settlements, want, begun, observations),
        seconds=_SECONDS,
    )


def _one_settlement_each(
    session: str, done: Sequence[Complete], others: Sequence[Settlement]
) -> bool:
    jobs = {settlement.lease.job for settlement in done}
    return (
        len(jobs) == len(done)
        and all(settlement.lease.session == session for settlement in done)
        and not any(settlement.lease.job in jobs for settlement in others)
    )


def _decide(
    tx: Transaction,
    session: str,
    seq: int,
    done: Sequence[Complete],
    others: Sequence[Settlement],
    want: Want | None,
    begun: Sequence[Lease],
    observations: Sequence[Observed],
) -> Exchanged:
    ((last, standing),) = tx.call("open", session, tx.lease)
    if last is None or seq != last + 1:
        return _call(tx, session, seq, (), None, ())
    alive = standing != Standing.DEAD
    if observations:
        record_observed(tx, observations)
    if alive and begun:
        tx.call("begin", session, *_columns(begun), None)
    leases = [settlement.lease for settlement in others]
    tried = [MOVE_OF[type(settlement)] for settlement in others]
    held, rejected = check(tx, session, leases, tried, alive=alive)
    completed = [settlement for place in held if isinstance(settlement := others[place], Complete)]
    moved = [
        settled(tx, job, others[place])
        for place, job in held.items()
        if not isinstance(others[place], Complete)
    ]
    answer = _call(tx, session, seq, [*done, *completed], want, (), listed(moved), rejected)
    counted = [
        (settlement.lease.job, settlement.counts)
        for settlement in (*done, *completed)
        if settlement.counts
    ]
    if counted:
        tx.run("settle", "count", counts=to_json(counted))
    fanned_out = any("pending" in move for move in moved)
    return replace(answer, unfinished=True) if fanned_out else answer


def _call(
    tx: Transaction,
    session: str,
    seq: int,
    done: Sequence[Complete],
    want: Want | None,
    begun: Sequence[Lease],
    decided: str | None = None,
    rejected: Sequence[Rejected] = (),
) -> Exchanged:
    try:
        header, *rows = tx.call(
            "exchange",
            session,
            seq,
            *_done(done),
            decided,
            to_json([(*rejection.lease, rejection.answer) for rejection in rejected])
            if rejected
            else "[]",
            None if want is None else _wanted(want),
            *_columns(begun),
            tx.wall,
            tx.lease,
        )
    except psycopg.Error as error:
        if error.sqlstate == _NOT_HELD:
            raise _NotHeld from error
        raise
    verdict, last, standing, refused = header[:4]
    match verdict:
        case "unknown":
            raise session_not_known(session)
        case "late":
            raise exchange_too_old(session, seq, last)
        case "ahead":
            raise exchange_forgotten(session, seq, last)
    if done or verdict == "repeat":
        tx.rings.add(Topic.DONE)
    if verdict == "repeat":  # the first try may have been cut off before it rang
        tx.rings.add(Topic.READY)
    if header[4]:  # other jobs became ready by it
        tx.rings.add(Topic.READY)
    return Exchanged(
        Standing(standing),
        tuple(rejected) if verdict == "done" else _refused(refused),
        tuple([_claimed(session, row) for row in rows]),
        quiet=header[8],
        next_at=header[14] or None,
        unfinished=header[9],
        passed_over=PassedOver(header[7]),
    )


def _wanted(want: Want) -> str:
    if want.gate is None or not want.gate.weights:
        return to_json(want.pools)
    return to_json({"pools": want.pools, "gate": gate_record(want.gate)})


def _columns(leases: Sequence[Lease]) -> tuple[str | None, str | None]:
    if not leases:
        return None, None
    return column([lease.job for lease in leases]), column([str(lease.token) for lease in leases])


def _done(done: Sequence[Complete]) -> tuple[str | None, ...]:
    if not done:
        return None, None, None, None
    return (
        column([job.lease.job for job in done]),
        column([str(job.lease.token) for job in done]),
        # The result of a task that returns None is not stored.
        nullable(None if job.result == "null" else job.result for job in done),
        nullable(to_json(job.secrets) if job.secrets else None for job in done),
    )


_Refused = list[tuple[str, str, int, Literal["already", "gone", "lost"]]]


def _refused(text: str) -> tuple[Rejected, ...]:
    listed = msgspec.json.decode(text, type=_Refused)
    return tuple(Rejected(Lease(job, session, token), why) for job, session, token, why in listed)


def _claimed(session: str, row: Row) -> ClaimedJob:
    (job, token, task, queue, round_, failures, orphans, strikes, suspect, last_run, version, args,
     options, secrets, deadline_at) = row  # fmt: skip
    made = ClaimedJob if secrets == "[]" else claimed_of
    return made(
        Lease(job, session, token),
        task,
        queue,
        failures + orphans + 1,
        round_,
        Counters(failures, orphans, strikes),
        suspect,
        last_run,
        version,
        args,
        options,
        () if secrets == "[]" else secrets,
        deadline_at,
    )
