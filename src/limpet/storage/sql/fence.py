"""Which leases hold, from what a store has read about them."""

from collections.abc import Iterable, Mapping, Sequence

from limpet.domain.job import Counters
from limpet.domain.lease import Lease
from limpet.domain.transition import Rejected
from limpet.storage.sql.outcome import Held
from limpet.storage.sql.rows import Row


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


def holding(
    session: str,
    leases: Sequence[Lease],
    tried: Sequence[str],
    rows: Iterable[Row],
    *,
    once: bool,
) -> tuple[dict[int, Held], dict[Lease, str]]:
    """The leases that hold, by their place in the list, and the first word on each.

    `rows` are those of `fence.holding`: the place, then the columns of `held_of`. With `once`, the
    first of two words on one lease counts.
    """
    held: dict[int, Held] = {}
    first: dict[Lease, str] = {}
    for row in rows:
        place = int(row[0])
        lease = leases[place]
        if lease.session == session and not (once and lease in first):
            first[lease] = tried[place]
            held[place] = held_of(lease, row[1:16])
    return held, first


def verdicts(
    session: str,
    leases: Sequence[Lease],
    tried: Sequence[str],
    held: Mapping[int, Held],
    first: Mapping[Lease, str],
    rows: Iterable[Row],
) -> tuple[list[Rejected], dict[tuple[int | str, int], str]]:
    """Why the others do not hold, and what is to be told on whose timeline: (job, token) → word.

    `rows` are those of `fence.verdict`: the place, the job as the store names it (None when it is
    gone), and whether the report was accepted before. The same word again on a lease that holds is
    its repeat, another is late.
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
