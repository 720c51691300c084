"""Flows: many jobs that are enqueued at one moment: stage, commit, write out; and children."""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from limpet.domain.errors import FlowIncomplete, LeaseLost, QueueFull
from limpet.domain.job import JobList, NewJob
from limpet.domain.lease import Lease
from limpet.domain.state import State
from limpet.storage.contract.answers import Receipt
from limpet.storage.contract.bounds import page_size
from limpet.storage.contract.caps import flow_over_cap
from limpet.storage.contract.refusals import cursor_not_given
from limpet.storage.contract.store import CHUNK
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.enqueue import admit, lock_queues, may_enqueue
from limpet.storage.postgres.lists import column
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.texts import to_json
from limpet.storage.records.unreadable import field, readable
from limpet.storage.sql.rows import job_of

# How many old flows one call removes.
MOST_FLOWS = 10


def stage(tx: Transaction, flow: str, place: int, jobs: Sequence[NewJob]) -> None:
    """Keep the jobs of a flow until its commit; see `FlowVerbs.stage`."""
    tx.call("pass", False)
    tx.run("flow", "begin", flow=flow, wall=tx.wall)
    ((_, committed_at),) = tx.run("flow", "lock", flow=flow)
    if committed_at is not None:  # a late repeat, which must not be written out again
        return
    # Refuses what cannot be stored.
    column([text for job in jobs for text in (job.id, job.args, job.options)])
    tx.run("flow", "clear", flow=flow, place=place)
    rows = to_json([(job.id, job.parent, to_json(job), job.queue) for job in jobs])
    tx.run("flow", "stage", flow=flow, place=place, rows=rows)
    tx.run("flow", "staged", flow=flow, place=place, wall=tx.wall)


def commit(
    tx: Transaction, flow: str, chunks: int, fence: Lease | None, caps: Mapping[str, int] | None
) -> bool | LeaseLost | QueueFull:
    """Commit all jobs of a flow; see `FlowVerbs.commit`.

    A refusal that has written something is returned, not raised, so that it is not rolled back.
    """
    staged: dict[str, int] = {}
    if caps:
        staged = dict(tx.run("flow", "staged_by_queue", flow=flow, chunks=chunks))
        lock_queues(tx, staged.keys() & caps.keys())  # first, as in enqueue_under
    tx.call("pass", fence is None)
    if fence is not None and not may_enqueue(tx, fence):
        return LeaseLost(*fence)
    row = tx.one("flow", "lock", flow=flow)
    if row is not None and row[1] is not None:
        return False
    if row is None or not _is_whole(row[0], chunks):
        raise FlowIncomplete(flow)
    if caps and (full := _over_cap(tx, staged, caps)):
        drop(tx, flow)
        return full
    return _commit(tx, flow, chunks)


def _over_cap(
    tx: Transaction, staged: Mapping[str, int], caps: Mapping[str, int]
) -> QueueFull | None:
    queues = column(sorted(staged.keys() & caps.keys()))
    ((_, waiting),) = tx.call("queue_lengths", column([]), queues)
    return flow_over_cap(staged, caps, lambda queue: int(waiting[queue]))


def commit_staged(tx: Transaction, flow: str, chunks: int) -> bool:
    """Commit a flow within another verb; False, with nothing written, if a part is missing."""
    row = tx.one("flow", "lock", flow=flow)
    if row is None or row[1] is not None or not _is_whole(row[0], chunks):
        return False
    return _commit(tx, flow, chunks)


def _is_whole(places: Sequence[int], chunks: int) -> bool:
    return set(range(chunks)) <= set(places)


def _commit(tx: Transaction, flow: str, chunks: int) -> bool:
    tx.run("flow", "drop", flow=flow, chunks=chunks)
    tx.run("flow", "commit", flow=flow, wall=tx.wall)
    return True


def drop(tx: Transaction, flow: str) -> None:
    """Remove the staged jobs of a flow that nobody will commit."""
    row = tx.one("flow", "lock", flow=flow)
    if row is not None and row[1] is None:
        tx.run("flow", "drop", flow=flow, chunks=0)
        tx.run("flow", "forget", flow=flow)


_job = msgspec.json.Decoder(NewJob).decode


def write_out(database: Database) -> int:
    """Write jobs of committed flows, parents first, at most 1,000; return how many are ready.

    A transaction for each flow, because a transaction may lock keys only once
    (functions/06_turns.sql, locks).
    """
    ready, left = 0, CHUNK
    while left and (receipts := database.write(partial(_write_next, limit=left))) is not None:
        ready += sum(
            receipt.outcome == "new" and receipt.state is State.READY for receipt in receipts
        )
        left -= len(receipts)
    return ready


def _write_next(tx: Transaction, limit: int) -> list[Receipt] | None:
    found = tx.one("flow", "committed")
    if found is None:
        return None
    flow = found[0]
    rows = tx.run("flow", "next", flow=flow, limit=limit)
    rows = rows or tx.run("flow", "any", flow=flow, limit=limit)
    jobs = readable(rows, lambda row: field("staged job", row[0], "job", _job, row[1]))
    receipts = admit(tx, jobs, flow=True)
    if rows:
        tx.run("flow", "written", flow=flow, ids=column([id_ for id_, _ in rows]))
    tx.run("flow", "finish", flow=flow)
    return receipts


def forget_old(tx: Transaction, before: int) -> int:
    """Remove flows that were not committed in time, and old flows that are written; how many."""
    old = [str(row[0]) for row in tx.run("flow", "old", before=before, limit=MOST_FLOWS)]
    for flow in old:
        tx.run("flow", "drop", flow=flow, chunks=0)
        tx.run("flow", "forget", flow=flow)
    return len(old)


def children(tx: Transaction, job: str, cursor: str | None, limit: int) -> JobList:
    """The children of a job, oldest first; see `FlowVerbs.children`."""
    size = page_size(limit)
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise cursor_not_given(cursor)
    rows = tx.run("flow", "children", parent=job, after=int(cursor or 0), limit=size + 1)
    more = len(rows) > size
    rows = rows[:size]
    return JobList(tuple(job_of(row) for row in rows), str(rows[-1][0]) if more else None)
