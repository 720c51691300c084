"""(nothing) → ready or scheduled."""

from collections import Counter
from collections.abc import Mapping, Sequence

from limpet.domain.errors import LeaseLost
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.queue import sort_key
from limpet.domain.session import Standing
from limpet.domain.state import Move, State
from limpet.storage.answers import Receipt
from limpet.storage.caps import none_written, over_cap
from limpet.storage.sqlite.fence import check
from limpet.storage.sqlite.relocate import check as check_open
from limpet.storage.sqlite.session import find, standing
from limpet.storage.sqlite.transaction import Transaction, Value
from limpet.storage.texts import to_json


def enqueue(
    tx: Transaction,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int] | None = None,
    all_or_none: bool = False,
    *,
    fenced: bool = False,
) -> list[Receipt]:
    """Write new jobs; see `EnqueueVerbs.enqueue`. `fenced`: a job that runs asks for it."""
    ((last, closed),) = tx.run("enqueue", "last")
    check_open(tx, closed, new=not fenced)
    refused: dict[str, Receipt] = {}
    if caps:
        known = _known(tx, jobs)
        refused = over_cap(jobs, caps, known, lambda queue: _waiting(tx, queue))
        if refused and all_or_none:
            return none_written(jobs, known, refused)
    wanted = [job for job in jobs if job.id not in refused]
    # Numbered here, because SQLite takes twice as long to write a row and tell its number.
    rows = [_row(tx, n, job) for n, job in enumerate(wanted, start=last + 1)]
    before = tx.total_changed()
    tx.many("enqueue", "insert_job", rows)
    receipts = dict(refused)
    fresh = list(zip(wanted, rows, strict=True))
    if tx.total_changed() - before != len(wanted):
        fresh = _without_repeats(tx, fresh, receipts)
    tx.many(
        "enqueue",
        "insert_payload",
        ((row[0], job.args, job.options, _secrets(job)) for job, row in fresh),
    )
    moved: Counter[tuple[str, State]] = Counter()
    for job, row in fresh:
        state = State.SCHEDULED if row[4] == "scheduled" else State.READY
        moved[job.queue, state] += 1
        receipts[job.id] = Receipt(job.id, "new", state)
    for (queue, state), count in moved.items():
        tx.moved(queue, Move.ENQUEUE, None, state, count)
    return [receipts[job.id] for job in jobs]


def enqueue_under(
    tx: Transaction,
    fence: Lease,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int] | None,
    all_or_none: bool,
) -> list[Receipt] | LeaseLost:
    """Write new jobs while the lease of the attempt that enqueues them holds.

    A lost lease is answered, not raised: what a verb raises is undone, and with it would go the
    complaint on the timeline.
    """
    row = find(tx, fence.session)
    # Stricter than for a settlement: past its moment the job may start elsewhere any time now.
    alive = row is not None and standing(tx, row) in (Standing.LIVE, Standing.DRAINING)
    _, rejected = check(tx, fence.session, [fence], ["enqueue jobs from"], alive=alive)
    if rejected:
        return LeaseLost(*fence)
    return enqueue(tx, jobs, caps, all_or_none, fenced=True)


def _secrets(job: NewJob) -> str:
    return to_json(job.secrets) if job.secrets else "[]"


def _row(tx: Transaction, n: int, job: NewJob) -> tuple[Value, ...]:
    due = job.scheduled_for
    later = due is not None and due > tx.now
    ready_at = due if due is not None and later else tx.now
    ends = [at for at in (job.expires_at, job.deadline_at) if at is not None]
    return (
        n,
        job.id,
        job.task,
        job.queue,
        "scheduled" if later else "ready",
        job.priority,
        sort_key(ready_at, job.priority),
        ready_at,
        tx.now,
        job.expires_at,
        job.deadline_at,
        min(ends, default=None),
        job.key,
        job.unique,
        job.parent,
        job.root,
        job.weight_class,
        job.payload_version,
    )


def _without_repeats(
    tx: Transaction,
    jobs: list[tuple[NewJob, tuple[Value, ...]]],
    receipts: dict[str, Receipt],
) -> list[tuple[NewJob, tuple[Value, ...]]]:
    """The new ones: those that are there under the number they were given just now."""
    listed = to_json([job.id for job, _ in jobs])
    known = {id_: (n, State(state)) for id_, n, state in tx.run("enqueue", "known", ids=listed)}
    fresh = []
    for job, row in jobs:
        n, state = known[job.id]
        if n == row[0]:
            fresh.append((job, row))
        else:
            receipts.setdefault(job.id, Receipt(job.id, "already", state))
    return fresh


def _known(tx: Transaction, jobs: Sequence[NewJob]) -> dict[str, State]:
    listed = to_json([job.id for job in jobs])
    return {str(id_): State(state) for id_, _, state in tx.run("enqueue", "known", ids=listed)}


def _waiting(tx: Transaction, queue: str) -> int:
    row = tx.one("enqueue", "waiting", queue=queue)
    return int(row[0]) if row else 0
