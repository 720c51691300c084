"""The fence: every write after a claim checks its lease here, in the same transaction."""

from collections.abc import Sequence

from limpet.domain.cause import LateHolder
from limpet.domain.event import EventName
from limpet.domain.lease import Lease
from limpet.domain.transition import Rejected
from limpet.storage.records.texts import to_json
from limpet.storage.sql.fence import holding, verdicts
from limpet.storage.sql.outcome import HeldRow
from limpet.storage.sqlite.transaction import Transaction


def check(
    tx: Transaction,
    session: str,
    leases: Sequence[Lease],
    tried: Sequence[str],
    *,
    alive: bool,
    once: bool = True,
) -> tuple[dict[int, HeldRow], list[Rejected]]:
    """Split leases into those that hold, by their place in the list, and those that do not.

    `tried`: for each lease, what its holder wants, for the timeline of a job that it has lost. A
    session that is not `alive` holds nothing: its jobs still carry its name, but wait for recovery.
    With `once`, only the first of two reports on one lease counts; the same kind of report again is
    a repeat, another kind is late.
    """
    if not leases:
        return {}, []
    listed = to_json([(lease.job, lease.token) for lease in leases])
    rows = tx.run("fence", "holding", leases=listed, session=session) if alive else []
    held, first = holding(session, leases, tried, rows, once=once)
    if len(held) == len(leases):
        return held, []
    words = zip(leases, tried, strict=True)
    listed = to_json([(lease.job, lease.token, word) for lease, word in words])
    found = tx.run("fence", "verdict", leases=listed, session=session)
    rejected, complaints = verdicts(session, leases, tried, held, first, found)
    for (n, token), wanted in complaints.items():
        _complain(tx, int(n), session, token, wanted)
    return held, rejected


def _complain(tx: Transaction, n: int, session: str, token: int, tried: str) -> None:
    # Once for each lost lease, however often its holder tries. The event names the session of the
    # caller: a made-up lease may carry the name of another.
    if tx.one("fence", "complained", n=n, session=session, token=token) is None:
        cause = LateHolder(tried=tried)
        tx.record(n, EventName.LEASE_LOST, session=session, token=token, cause=cause)


def mark_begun(tx: Transaction, session: str, begun: Sequence[Lease]) -> None:
    """Record which held jobs have started; leases that do not hold are ignored."""
    left = list(begun)
    while left:
        # A job that is listed with two tokens takes two passes.
        tokens = {lease.job: lease.token for lease in left}
        tx.run("fence", "begin", leases=to_json(tokens), session=session)
        left = [lease for lease in left if tokens[lease.job] != lease.token]
