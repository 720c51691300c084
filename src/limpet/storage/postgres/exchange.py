"""The hot path: settle and claim in one step, with the same answer for the same `seq`.

Where everything that is settled has succeeded, this is one call. The rest is looked at first, then
decided here, and carried out by the same call, in one transaction.
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
from limpet.storage.contract.refusals import (
    exchange_forgotten,
    exchange_too_old,
    session_not_known,
)
from limpet.storage.contract.store import Topic, Want
from limpet.storage.postgres.breakers import tell
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
# Longer than it may wait for a lock; a worker with outcomes to tell cannot wait for longer.
_SECONDS = 12.0


class _NotHeld(Exception):
    """One of the jobs that are done is not held; nothing was done."""


def exchange(
    database: Database,
    session: str,
    seq: int,
    settlements: Sequence[Settlement],
    want: Want | None,
    begun: Sequence[Lease],
    seen: Sequence[Observed],
) -> Exchanged:
    """Settle and claim; see `HolderVerbs.exchange`."""
    done = [each for each in settlements if isinstance(each, Complete)]
    others = [each for each in settlements if not isinstance(each, Complete)]
    if _one_word_each(session, done, others):
        try:
            if not others and not seen and not any(each.counts for each in done):
                return database.once(
                    lambda tx: _call(tx, session, seq, done, want, begun), seconds=_SECONDS
                )
            return database.write(
                lambda tx: _decide(tx, session, seq, done, others, want, begun, seen),
                seconds=_SECONDS,
            )
        except _NotHeld:
            pass  # who said what too late is told one by one
    return database.write(
        lambda tx: _decide(tx, session, seq, [], settlements, want, begun, seen),
        seconds=_SECONDS,
    )


def _one_word_each(session: str, done: Sequence[Complete], others: Sequence[Settlement]) -> bool:
    jobs = {each.lease.job for each in done}
    return (
        len(jobs) == len(done)
        and all(each.lease.session == session for each in done)
        and not any(each.lease.job in jobs for each in others)
    )


def _decide(
    tx: Transaction,
    session: str,
    seq: int,
    done: Sequence[Complete],
    others: Sequence[Settlement],
    want: Want | None,
    begun: Sequence[Lease],
    seen: Sequence[Observed],
) -> Exchanged:
    ((last, standing),) = tx.call("open", session, tx.lease)
    if last is None or seq != last + 1:
        return _call(tx, session, seq, (), None, ())
    alive = standing != Standing.DEAD
    if seen:
        tell(tx, seen)
    if alive and begun:
        tx.call("begin", session, *_columns(begun), None)
    leases = [each.lease for each in others]
    tried = [MOVE_OF[type(each)] for each in others]
    held, rejected = check(tx, session, leases, tried, alive=alive)
    told = [each for place in held if isinstance(each := others[place], Complete)]
    moved = [
        settled(tx, job, others[place])
        for place, job in held.items()
        if not isinstance(others[place], Complete)
    ]
    answer = _call(tx, session, seq, [*done, *told], want, (), listed(moved), rejected)
    counted = [(each.lease.job, each.counts) for each in (*done, *told) if each.counts]
    if counted:
        tx.run("settle", "count", counts=to_json(counted))
    fanned_out = any("pending" in each for each in moved)
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
            to_json([(*each.lease, each.answer) for each in rejected]) if rejected else "[]",
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
    if verdict == "repeat":  # who said it first may not have come to ring
        tx.rings.add(Topic.READY)
    if header[4]:  # others became ready by it
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
    return column([each.job for each in leases]), column([str(each.token) for each in leases])


def _done(done: Sequence[Complete]) -> tuple[str | None, ...]:
    if not done:
        return None, None, None, None
    return (
        column([each.lease.job for each in done]),
        column([str(each.lease.token) for each in done]),
        # A task that returns None leaves no text behind.
        nullable(None if each.result == "null" else each.result for each in done),
        nullable(to_json(each.secrets) if each.secrets else None for each in done),
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
