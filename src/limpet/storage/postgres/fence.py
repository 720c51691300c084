"""Which leases still hold: every write after a claim checks it here, in the same transaction."""

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

    The rows of the leases that hold stay locked until the transaction ends. The parameters are
    explained in the SQLite store (`sqlite/fence.py`).
    """
    if not leases:
        return {}, []
    moves = zip(leases, tried, strict=True)
    listed = to_json([(lease.job, lease.token, move) for lease, move in moves])
    rows = tx.run("fence", "holding", leases=listed, session=session) if alive else []
    rows.sort(key=itemgetter(0))  # back from the order of the locks, which is by id
    found, first = holding(session, leases, tried, rows, once=once)
    row_at = {int(row[0]): row for row in rows}
    held = {place: HeldJob(row, *row_at[place][16:18]) for place, row in found.items()}
    if len(held) == len(leases):
        return held, []
    verdict = tx.run("fence", "verdict", leases=listed, session=session)
    rejected, complaints = verdicts(session, leases, tried, found, first, verdict)
    for (job, token), wanted in complaints.items():
        # The session of the caller, because a forged lease may name another session.
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
