"""Sessions that have ended, and the jobs they leave: expire, recover, release."""

from collections.abc import Sequence
from datetime import timedelta

from limpet.domain.cause import Cause, Unknown, WorkerVanished
from limpet.domain.duration import microseconds_or_none
from limpet.domain.lease import Lease
from limpet.domain.session import Session, Standing
from limpet.domain.state import Move, State
from limpet.domain.transition import Rejected
from limpet.storage.contract.answers import Outlook, Recovered
from limpet.storage.contract.store import CHUNK
from limpet.storage.postgres.fence import check
from limpet.storage.postgres.held import HeldJob
from limpet.storage.postgres.inspect import sessions
from limpet.storage.postgres.session import end
from limpet.storage.postgres.settle import moves
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.texts import cause_in
from limpet.storage.sql.fence import held_row
from limpet.storage.sql.outcome import Decision, HeldRow, lost, released
from limpet.storage.sql.rows import Row


def expire(tx: Transaction, overdue_at: int, longest: timedelta | None) -> tuple[Session, ...]:
    """End the sessions that were overdue at that moment of the lease clock, and list the dead
    sessions that still have jobs; see `SweepVerbs.expire`.
    """
    most = microseconds_or_none(longest)
    for session, renewed_at in tx.run("recover", "overdue", overdue_at=overdue_at, longest=most):
        end(tx, session, WorkerVanished(last_seen=renewed_at))
    tx.run("recover", "shorten", given=tx.lease)
    widowed = [str(row[0]) for row in tx.run("recover", "widowed")]
    return tuple(session for id_ in widowed for session in sessions(tx, with_dead=True, one=id_))


def outlook(tx: Transaction, longest: timedelta | None) -> Outlook:
    """What a sweeper must know before it sweeps; see `SweepVerbs.outlook`."""
    (row,) = tx.run("recover", "outlook", given=tx.lease, longest=microseconds_or_none(longest))
    return Outlook(*row)


def recover(tx: Transaction, session: str) -> Recovered:
    """Take back the jobs of a dead session; see `SweepVerbs.recover`."""
    dead = tx.one("recover", "dead", session=session)
    if dead is None:
        return Recovered(0, 0, 0, more=False)
    cause = cause_in("session", session, dead[0]) or Unknown("unknown", "")
    rows = tx.run("recover", "orphans", session=session, limit=CHUNK)
    decided = [_taken_back(session, row, cause) for row in rows]
    _shift(tx, session, decided)
    went = [decision.target for _, decision in decided]
    return Recovered(
        ready=went.count(State.READY),
        failed=went.count(State.FAILED),
        cancelled=went.count(State.CANCELLED),
        more=len(rows) == CHUNK,
    )


def _taken_back(session: str, row: Row, cause: Cause) -> tuple[HeldRow, Decision]:
    held = held_row(Lease(row[0], session, row[1]), row[2:17])
    facts = HeldJob(held, *row[17:19])
    decision = lost(
        held, cause, facts, move=Move.RECOVER, begun=held.begun, alone=None, accepted=False
    )
    return held, decision


def release(
    tx: Transaction, session: str, leases: Sequence[Lease], cause: Cause
) -> tuple[Rejected, ...]:
    """Hand jobs back uncharged; see `HolderVerbs.release`."""
    ((_, standing),) = tx.call("open", session, tx.lease)
    alive = standing is not None and standing != Standing.DEAD
    held, rejected = check(tx, session, leases, ["release"] * len(leases), alive=alive)
    _shift(tx, session, [(job.row, released(job.row, cause, job)) for job in held.values()])
    return tuple(rejected)


def _shift(tx: Transaction, session: str, decided: Sequence[tuple[HeldRow, Decision]]) -> None:
    listed = moves(tx, decided)
    if listed is not None:
        ((now,),) = tx.run("recover", "time", given=tx.wall)
        tx.call("shift", session, listed, now)
