"""Sessions that are over, and the jobs they leave: expire, recover, release."""

from collections.abc import Callable, Sequence

from limpet.domain.cause import Cause, Unknown, WorkerVanished
from limpet.domain.lease import Lease
from limpet.domain.session import Session, Standing
from limpet.domain.state import Move, State
from limpet.domain.transition import Rejected
from limpet.storage.answers import Recovered
from limpet.storage.base import CHUNK
from limpet.storage.fence import held_of
from limpet.storage.outcome import Decision, Held, lost, released
from limpet.storage.postgres.fence import check
from limpet.storage.postgres.inspect import sessions
from limpet.storage.postgres.session import end
from limpet.storage.postgres.settle import HeldJob, moves
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.rows import Row
from limpet.storage.texts import error_of

# More than a clock that is slewed, or a slow answer, is off by between two looks.
_STEP = 1_000_000


def lease_time(tx: Transaction) -> int:
    """What time it is on the lease clock."""
    ((now,),) = tx.run("recover", "time", given=tx.lease)
    return int(now)


class ClockWatch:
    """Sees when the server's clock was stepped, by comparing it with this machine's.

    After a step forward every lease looks over, and whoever holds one still runs: then nothing is
    expired for one lease, in which each holder renews or learns that it is too late.
    """

    def __init__(self, boot: Callable[[], int]) -> None:
        self._boot = boot
        self._ahead: int | None = None
        self._quiet_until = 0

    def trusts(self, server: int, longest_lease: int) -> bool:
        """Whether a lease that is over by the server's time is over."""
        boot = self._boot()
        ahead = server - boot
        if self._ahead is not None and abs(ahead - self._ahead) > _STEP:
            self._quiet_until = boot + longest_lease
        self._ahead = ahead
        return boot >= self._quiet_until


def expire(tx: Transaction, asked: int, watch: ClockWatch) -> tuple[Session, ...]:
    """Mark what was overdue when it was asked for (lease clock), and list what is dead and still
    has jobs; see `SweepVerbs.expire`.
    """
    ((longest,),) = tx.run("recover", "longest_lease")
    if watch.trusts(asked, longest):
        for session, renewed_at in tx.run("recover", "overdue", asked=asked):
            end(tx, session, WorkerVanished(last_seen=renewed_at))
    widowed = [str(row[0]) for row in tx.run("recover", "widowed")]
    return tuple(each for id_ in widowed for each in sessions(tx, with_dead=True, one=id_))


def next_moment(tx: Transaction) -> int | None:
    """When the next lease ends, on the lease clock."""
    row = tx.one("recover", "next_moment")
    return row[0] if row else None


def recover(tx: Transaction, session: str) -> Recovered:
    """Take back the jobs of a dead session; see `SweepVerbs.recover`."""
    dead = tx.one("recover", "dead", session=session)
    if dead is None:
        return Recovered(0, 0, 0, more=False)
    cause = error_of(dead[0]) or Unknown("unknown", "")
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


def _taken_back(session: str, row: Row, cause: Cause) -> tuple[Held, Decision]:
    held = held_of(Lease(row[0], session, row[1]), row[2:17])
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


def _shift(tx: Transaction, session: str, decided: Sequence[tuple[Held, Decision]]) -> None:
    listed = moves(decided)
    if listed is not None:
        ((now,),) = tx.run("recover", "time", given=tx.wall)
        tx.call("shift", session, listed, now)
