"""Which leases still hold: every write after a claim asks here, in the same transaction."""

from collections.abc import Sequence

from limpet.domain.cause import LateHolder
from limpet.domain.event import EventName
from limpet.domain.lease import Lease
from limpet.domain.transition import Rejected
from limpet.storage.records.texts import to_json
from limpet.storage.sql.fence import holding, verdicts
from limpet.storage.sql.outcome import Held
from limpet.storage.sqlite.transaction import Transaction


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
