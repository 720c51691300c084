"""Which leases still hold: every write after a claim asks here, in the same transaction."""

from collections.abc import Sequence
from typing import NamedTuple

from limpet.domain.cause import LateHolder
from limpet.domain.event import EventName
from limpet.domain.job import Counters
from limpet.domain.lease import Lease
from limpet.domain.transition import Rejected
from limpet.storage.sqlite.transaction import Row, Transaction
from limpet.storage.texts import to_json


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
            held[place] = held_of(lease, row[1:])
    if len(held) == len(leases):
        return held, []
    return held, _verdicts(tx, session, leases, tried, held, first)


def held_of(lease: Lease, columns: Row) -> Held:
    """A job's row, its columns from `n` to `expires_at` as `fence.holding` lists them."""
    (n, queue, sort_key, ready_at, failures, orphans, strikes, last_run, begun, claimed_at,
     deadline_at, requested_at, priority, suspect, expires_at) = columns  # fmt: skip
    return Held(
        n=n,
        lease=lease,
        queue=queue,
        sort_key=sort_key,
        ready_at=ready_at,
        counters=Counters(failures, orphans, strikes),
        last_run=bool(last_run),
        begun=bool(begun),
        claimed_at=claimed_at,
        deadline_at=deadline_at,
        cancel_requested=requested_at is not None,
        priority=priority,
        suspect=bool(suspect),
        expires_at=expires_at,
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
    left = list(begun)
    while left:
        # A job that comes with two tokens takes two rounds.
        tokens = {lease.job: lease.token for lease in left}
        tx.run("fence", "begin", leases=to_json(tokens), session=session)
        left = [lease for lease in left if tokens[lease.job] != lease.token]
