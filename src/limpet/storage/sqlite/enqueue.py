"""(nothing) → ready or scheduled, or blocked (see shaped.py)."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from operator import itemgetter
from typing import Any

from limpet.domain.errors import LeaseLost
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.rules import NO_RULES
from limpet.domain.session import Standing
from limpet.domain.state import Move, State
from limpet.storage.contract.answers import Receipt
from limpet.storage.contract.caps import are_one, none_written, over_cap
from limpet.storage.records.texts import to_json
from limpet.storage.sqlite.columns import job_row, payload_row
from limpet.storage.sqlite.fence import check
from limpet.storage.sqlite.relocate import check as check_open
from limpet.storage.sqlite.session import find, standing
from limpet.storage.sqlite.shaped import take_in
from limpet.storage.sqlite.transaction import Transaction
from limpet.storage.sqlite.unique import foreseen

# The fields by which a job needs more of the store than a place in a queue; read for every job.
_SHAPING_FIELDS = itemgetter(*map(NewJob._fields.index, ("key", "unique", "parent", "rules")))
_NUMBER, _QUEUE_AND_STATE = itemgetter(0), itemgetter(3, 4)  # of a row
_UNSHAPED = frozenset({(None, None, None, None), (None, None, None, NO_RULES)})


def enqueue(
    tx: Transaction,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int] | None = None,
    all_or_none: bool = False,
    *,
    fenced: bool = False,
) -> list[Receipt]:
    """Write new jobs; see `EnqueueVerbs.enqueue`. `fenced`: a running job enqueues them."""
    ((last, closed, draining),) = tx.run("enqueue", "last")
    check_open(tx, closed, new=not fenced)
    refused: dict[str, Receipt] = {}
    shaped = not _UNSHAPED.issuperset(map(_SHAPING_FIELDS, jobs))
    known = known_of(tx, jobs) if caps or draining or shaped else {}
    if caps or draining:
        # A duplicate takes no place in the queue, and a replacing job takes that of another.
        duplicates, replacing = foreseen(tx, jobs)
        free = duplicates | known.keys()
        if caps:
            refused = over_cap(jobs, caps, free | replacing, lambda queue: waiting_in(tx, queue))
        if draining and not fenced:
            refused |= _drained(tx, jobs, free)
    if refused and are_one(jobs, all_or_none):
        return none_written(jobs, known, refused)
    wanted = [job for job in jobs if job.id not in refused]
    if shaped:
        receipts = take_in(tx, last, wanted, known) | refused
    else:
        receipts = _write(tx, last, wanted) | refused
    return [receipts[job.id] for job in jobs]


def _write(tx: Transaction, last: int, jobs: Sequence[NewJob]) -> dict[str, Receipt]:
    # Numbered here, because SQLite takes twice as long if it must return the number of each row.
    rows: list[tuple[Any, ...]] = [
        job_row(tx, n, job) for n, job in enumerate(jobs, start=last + 1)
    ]
    before = tx.total_changed()
    tx.many("enqueue", "insert_job", rows)
    receipts: dict[str, Receipt] = {}
    if tx.total_changed() - before != len(jobs):
        jobs, rows = _without_repeats(tx, jobs, rows, receipts)
    tx.many("enqueue", "insert_payload", map(payload_row, map(_NUMBER, rows), jobs))
    kinds = Counter(map(_QUEUE_AND_STATE, rows))
    for kind, count in kinds.items():
        queue, state = kind[0], State(kind[1])
        tx.moved(queue, Move.ENQUEUE, None, state, count)
        ids = [row[1] for row in rows if len(kinds) == 1 or _QUEUE_AND_STATE(row) == kind]
        receipts |= zip(ids, Receipt.all_new(ids, state), strict=True)
    return receipts


def enqueue_under(
    tx: Transaction,
    fence: Lease,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int] | None,
    all_or_none: bool,
) -> list[Receipt] | LeaseLost:
    """Write new jobs while the lease of the attempt that enqueues them holds.

    A lost lease is answered, not raised: an error undoes the verb's writes, and so would undo the
    complaint on the timeline.
    """
    if not may_enqueue(tx, fence):
        return LeaseLost(*fence)
    return enqueue(tx, jobs, caps, all_or_none, fenced=True)


def may_enqueue(tx: Transaction, fence: Lease) -> bool:
    """Whether an attempt still holds its lease; if not, its timeline records the late attempt."""
    row = find(tx, fence.session)
    # Stricter than for a settlement: once the session is past its moment, the job may start
    # elsewhere at any time.
    alive = row is not None and standing(tx, row) in (Standing.LIVE, Standing.DRAINING)
    _, rejected = check(tx, fence.session, [fence], ["enqueue jobs from"], alive=alive)
    return not rejected


def _without_repeats(
    tx: Transaction,
    jobs: Sequence[NewJob],
    rows: list[tuple[Any, ...]],
    receipts: dict[str, Receipt],
) -> tuple[list[NewJob], list[tuple[Any, ...]]]:
    """The jobs that were written now: those that have the number which this call gave them."""
    listed = to_json([job.id for job in jobs])
    known = {id_: (n, State(state)) for id_, n, state in tx.run("enqueue", "known", ids=listed)}
    fresh = []
    for job, row in zip(jobs, rows, strict=True):
        n, state = known[job.id]
        if n == row[0]:
            fresh.append((job, row))
        else:
            receipts.setdefault(job.id, Receipt(job.id, "already", state))
    return [job for job, _ in fresh], [row for _, row in fresh]


def known_of(tx: Transaction, jobs: Sequence[NewJob]) -> dict[str, State]:
    """The states of those jobs whose ids are in the store."""
    listed = to_json([job.id for job in jobs])
    return {str(id_): State(state) for id_, _, state in tx.run("enqueue", "known", ids=listed)}


def _drained(tx: Transaction, jobs: Sequence[NewJob], free: Container[str]) -> dict[str, Receipt]:
    """The receipts of jobs whose queue takes in no new ones; jobs in `free` are exempt."""
    queues = {queue for (queue,) in tx.run("enqueue", "draining")}
    return {
        job.id: Receipt(job.id, "draining", None)
        for job in jobs
        if job.queue in queues and job.id not in free
    }


def waiting_in(tx: Transaction, queue: str) -> int:
    """How many jobs wait in a queue, including those of committed flows."""
    row = tx.one("enqueue", "waiting", queue=queue)
    return int(row[0]) if row else 0
