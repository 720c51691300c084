"""Sessions that are over, and the jobs that they leave: expire, recover, release."""

from collections.abc import Sequence
from datetime import timedelta

from limpet.domain.cause import Cause, HostRebooted, Unknown, WorkerVanished
from limpet.domain.duration import microseconds_or_none
from limpet.domain.lease import Lease, digest
from limpet.domain.session import Session, Standing
from limpet.domain.state import Move, State
from limpet.domain.transition import Rejected
from limpet.storage.contract.answers import Outlook, Recovered
from limpet.storage.contract.store import CHUNK
from limpet.storage.records.texts import cause_in
from limpet.storage.sql.fence import held_row
from limpet.storage.sql.outcome import lost, released
from limpet.storage.sql.rows import Row
from limpet.storage.sqlite.after import after
from limpet.storage.sqlite.fence import check
from limpet.storage.sqlite.inspect import sessions
from limpet.storage.sqlite.session import end, find, let_go, standing
from limpet.storage.sqlite.settle import StoredFacts, carry_out
from limpet.storage.sqlite.transaction import Transaction


def expire(tx: Transaction, overdue_at: int, longest: timedelta | None) -> tuple[Session, ...]:
    """Mark sessions dead that were overdue at `overdue_at` (lease clock), and list the dead ones
    that still have jobs; see `SweepVerbs.expire`.
    """
    most = microseconds_or_none(longest)
    overdue = tx.run("recover", "overdue", boot=tx.boot, now_lease=overdue_at, longest=most)
    for session, renewed_at in overdue:
        end(tx, session, WorkerVanished(last_seen=renewed_at))
    tx.run("recover", "shorten", boot=tx.boot, now_lease=tx.now_lease)
    widowed = {str(row[0]) for row in tx.run("recover", "widowed")}
    return tuple(
        session for id_ in sorted(widowed) for session in sessions(tx, with_dead=True, one=id_)
    )


def expire_foreign(tx: Transaction) -> None:
    """Mark the sessions of an earlier boot dead; the caller knows that they are."""
    for session, boot in tx.run("recover", "foreign", boot=tx.boot):
        end(tx, session, HostRebooted(boot=boot))


def outlook(tx: Transaction, longest: timedelta | None) -> Outlook:
    """The lease clock and the next end of a lease; see `SweepVerbs.outlook`."""
    row = tx.one("recover", "next_moment", boot=tx.boot, longest=microseconds_or_none(longest))
    widowed = tx.one("recover", "widowed") is not None
    return Outlook(tx.now_lease, tx.boot, row[0] if row else None, widowed)


def recover(tx: Transaction, session: str) -> Recovered:
    """Take back the jobs of a dead session; see `SweepVerbs.recover`."""
    dead = tx.one("recover", "dead", session=session)
    if dead is None:
        return Recovered(0, 0, 0, more=False)
    cause = cause_in("session", session, dead[0]) or Unknown("unknown", "")
    rows = tx.run("recover", "orphans", session=session, limit=CHUNK)
    went = [_take_back(tx, session, row, cause) for row in rows]
    after(tx, [row[2] for row in rows])
    let_go(tx, session, digest((row[0], row[1]) for row in rows))
    return Recovered(
        ready=went.count(State.READY),
        failed=went.count(State.FAILED),
        cancelled=went.count(State.CANCELLED),
        more=len(rows) == CHUNK,
    )


def _take_back(tx: Transaction, session: str, row: Row, cause: Cause) -> State:
    held = held_row(Lease(row[0], session, row[1]), row[2:])
    decision = lost(
        held,
        cause,
        StoredFacts(tx),
        move=Move.RECOVER,
        begun=held.begun,
        alone=None,
        accepted=False,
    )
    carry_out(tx, held, decision)
    return decision.target


def release(
    tx: Transaction, session: str, leases: Sequence[Lease], cause: Cause
) -> tuple[Rejected, ...]:
    """Hand jobs back uncharged; see `HolderVerbs.release`."""
    row = find(tx, session)
    alive = row is not None and standing(tx, row) is not Standing.DEAD
    held, rejected = check(tx, session, leases, ["release"] * len(leases), alive=alive)
    for item in held.values():
        carry_out(tx, item, released(item, cause, StoredFacts(tx)))
    after(tx, [item.n for item in held.values()])
    let_go(tx, session, digest((item.lease.job, item.lease.token) for item in held.values()))
    return tuple(rejected)
