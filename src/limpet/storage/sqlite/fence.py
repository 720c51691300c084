"""Which leases still hold: every write after a claim asks here, in the same transaction."""

from collections.abc import Sequence
from typing import NamedTuple

from limpet.domain.cause import LateHolder
from limpet.domain.event import EventName
from limpet.domain.job import Counters
from limpet.domain.lease import Lease
from limpet.domain.transition import Rejected
from limpet.storage.sqlite.transaction import Row, Transaction, to_json


class Held(NamedTuple):
    """The row of a job whose lease holds."""

    n: int
    lease: Lease
    queue: str
    sort_key: int
    ready_at: int
    counters: Counters
    last_run: bool
    begun: bool
    claimed_at: int | None
    deadline_at: int | None
    cancel_requested: bool
    priority: int
    suspect: bool
    expires_at: int | None


def check(
    tx: Transaction,
    session: str,
    leases: Sequence[Lease],
    tried: Sequence[str],
    *,
    alive: bool,
    once: bool = True,
) -> tuple[dict[int, Held], list[Rejected]]:
    """Split leases into those that hold, by their place in the list, and those that do not.

    `tried` says for each what its holder wanted, for the timeline of a job that it lost. A
    session that is not `alive` holds nothing: its jobs still stand under its name, but they wait
    for recovery. With `once`, the first of two words on one lease counts; the same word again is
    its repeat, another is late.
    """
    held: dict[int, Held] = {}
    if not leases:
        return held, []
    listed = to_json([(lease.job, lease.token) for lease in leases])
    first: dict[Lease, str] = {}
    for row in tx.run("fence", "holding", leases=listed, session=session) if alive else ():
        place = int(row[0])
        lease = leases[place]
        if lease.session == session and not (once and lease in first):
            first[lease] = tried[place]
            held[place] = _held(lease, row)
    if len(held) == len(leases):
        return held, []
    return held, _verdicts(tx, session, leases, tried, held, first)


def _held(lease: Lease, row: Row) -> Held:
    return Held(
        n=row[1],
        lease=lease,
        queue=row[2],
        sort_key=row[3],
        ready_at=row[4],
        counters=Counters(row[5], row[6], row[7]),
        last_run=bool(row[8]),
        begun=bool(row[9]),
        claimed_at=row[10],
        deadline_at=row[11],
        cancel_requested=row[12] is not None,
        priority=row[13],
        suspect=bool(row[14]),
        expires_at=row[15],
    )


def _verdicts(
    tx: Transaction,
    session: str,
    leases: Sequence[Lease],
    tried: Sequence[str],
    held: dict[int, Held],
    first: dict[Lease, str],
) -> list[Rejected]:
    rejected = []
    complaints: dict[tuple[int, int], str] = {}
    words = zip(leases, tried, strict=True)
    listed = to_json([(lease.job, lease.token, word) for lease, word in words])
    for place, n, already in tx.run("fence", "verdict", leases=listed, session=session):
        if place in held:
            continue
        lease = leases[place]
        if n is None:
            rejected.append(Rejected(lease, "gone"))
        elif lease.session == session and (already or first.get(lease) == tried[place]):
            rejected.append(Rejected(lease, "already"))
        else:
            rejected.append(Rejected(lease, "lost"))
            complaints.setdefault((n, lease.token), tried[place])
    for (n, token), wanted in complaints.items():
        _complain(tx, n, session, token, wanted)
    return rejected


def _complain(tx: Transaction, n: int, session: str, token: int, tried: str) -> None:
    # Once for each lost lease, however often its holder asks. The name is the caller's: a lease
    # that it made up may carry somebody else's.
    if tx.one("fence", "complained", n=n, session=session, token=token) is None:
        cause = LateHolder(tried=tried)
        tx.record(n, EventName.LEASE_LOST, session=session, token=token, cause=cause)


def mark_begun(tx: Transaction, session: str, begun: Sequence[Lease]) -> None:
    """Keep which held jobs have started; of others nothing is said."""
    if begun:
        listed = to_json([(lease.job, lease.token) for lease in begun])
        rows = tx.run("fence", "holding", leases=listed, session=session)
        tx.many("fence", "begin", ((row[1],) for row in rows))
