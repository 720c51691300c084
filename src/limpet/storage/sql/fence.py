"""Which leases hold, decided from the rows that a store in SQL has read about them."""

from collections.abc import Iterable, Mapping, Sequence

from limpet.domain.job import Counters
from limpet.domain.lease import Lease
from limpet.domain.transition import Rejected
from limpet.storage.sql.outcome import HeldRow
from limpet.storage.sql.rows import Row


def held_row(lease: Lease, columns: Row) -> HeldRow:
    """A held job from its columns, `n` to `expires_at` in the order of `fence.holding`."""
    (n, queue, sort_key, ready_at, failures, orphans, strikes, last_run, begun, claimed_at,
     deadline_at, requested_at, priority, suspect, expires_at) = columns  # fmt: skip
    return HeldRow(
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


def holding(
    session: str,
    leases: Sequence[Lease],
    tried: Sequence[str],
    rows: Iterable[Row],
    *,
    once: bool,
) -> tuple[dict[int, HeldRow], dict[Lease, str]]:
    """The rows of leases that hold, by their place in the list, and the first report on each lease.

    `rows`: of `fence.holding`: the place, then the columns of `held_row`. `tried`: the kind of
    report for each lease. With `once`, only the first of two reports on one lease counts.
    """
    held: dict[int, HeldRow] = {}
    first: dict[Lease, str] = {}
    for row in rows:
        place = int(row[0])
        lease = leases[place]
        if lease.session == session and not (once and lease in first):
            first[lease] = tried[place]
            held[place] = held_row(lease, row[1:16])
    return held, first


def verdicts(
    session: str,
    leases: Sequence[Lease],
    tried: Sequence[str],
    held: Mapping[int, HeldRow],
    first: Mapping[Lease, str],
    rows: Iterable[Row],
) -> tuple[list[Rejected], dict[tuple[int | str, int], str]]:
    """Why the other leases do not hold, and the late reports for the timelines of their jobs:
    (job, token) → kind of report.

    `rows`: of `fence.verdict`: the place, the job as the store names it (None when it is gone), and
    whether the report was accepted before. On a lease that holds, the same kind of report again is
    a repeat; another kind is late.
    """
    rejected = []
    complaints: dict[tuple[int | str, int], str] = {}
    for place, job, already in rows:
        if place in held:
            continue
        lease = leases[place]
        if job is None:
            rejected.append(Rejected(lease, "gone"))
        elif lease.session == session and (already or first.get(lease) == tried[place]):
            rejected.append(Rejected(lease, "already"))
        else:
            rejected.append(Rejected(lease, "lost"))
            complaints.setdefault((job, lease.token), tried[place])
    return rejected, complaints
