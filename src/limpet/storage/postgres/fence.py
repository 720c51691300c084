"""Which leases still hold: every write after a claim asks here, in the same transaction."""

from collections.abc import Sequence
from operator import itemgetter

from limpet.domain.cause import LateHolder
from limpet.domain.lease import Lease
from limpet.domain.transition import Rejected
from limpet.storage.postgres.held import HeldJob
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.texts import to_json
from limpet.storage.sql.fence import holding, verdicts


def check(
    tx: Transaction,
    session: str,
    leases: Sequence[Lease],
    tried: Sequence[str],
    *,
    alive: bool,
    once: bool = True,
) -> tuple[dict[int, HeldJob], list[Rejected]]:
    """Split leases into those that hold, by their place in the list, and those that do not.

    The rows of those that hold stay locked until the transaction ends. See the store of SQLite for
    the parameters.
    """
    if not leases:
        return {}, []
    words = zip(leases, tried, strict=True)
    listed = to_json([(lease.job, lease.token, word) for lease, word in words])
    rows = tx.run("fence", "holding", leases=listed, session=session) if alive else []
    rows.sort(key=itemgetter(0))  # they were locked by id
    found, first = holding(session, leases, tried, rows, once=once)
    told = {int(row[0]): row for row in rows}
    held = {place: HeldJob(row, *told[place][16:18]) for place, row in found.items()}
    if len(held) == len(leases):
        return held, []
    verdict = tx.run("fence", "verdict", leases=listed, session=session)
    rejected, complaints = verdicts(session, leases, tried, found, first, verdict)
    for (job, token), wanted in complaints.items():
        # The name is the caller's: a lease that it made up may carry somebody else's.
        tx.run(
            "fence",
            "complain",
            job=job,
            session=session,
            token=token,
            cause=to_json(LateHolder(tried=wanted).record()),
            wall=tx.wall,
        )
    return held, rejected
