"""Many jobs that come into being at one moment: stage, commit, write out; and children."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from limpet.domain.errors import FlowIncomplete, LeaseLost, QueueFull
from limpet.domain.job import JobList, NewJob
from limpet.domain.lease import Lease
from limpet.domain.state import State
from limpet.storage.contract.bounds import page_size
from limpet.storage.contract.caps import flow_over_cap
from limpet.storage.contract.refusals import cursor_not_given
from limpet.storage.contract.store import CHUNK
from limpet.storage.records.texts import to_json
from limpet.storage.records.unreadable import or_else
from limpet.storage.sql.rows import job_of
from limpet.storage.sqlite.enqueue import known_of, may_enqueue, waiting_in
from limpet.storage.sqlite.relocate import must_take_work, must_take_writes
from limpet.storage.sqlite.shaped import take_in
from limpet.storage.sqlite.transaction import Transaction


def stage(tx: Transaction, flow: str, place: int, jobs: Sequence[NewJob]) -> None:
    """Keep jobs aside; see `FlowVerbs.stage`."""
    must_take_writes(tx)
    if tx.one("flow", "committed", flow=flow) is None:  # a late repeat is not written out again
        queues = to_json(Counter(job.queue for job in jobs))
        listed = to_json(jobs)
        tx.run("flow", "stage", flow=flow, place=place, jobs=listed, queues=queues, now=tx.now)


def commit(
    tx: Transaction, flow: str, chunks: int, fence: Lease | None, caps: Mapping[str, int] | None
) -> bool | LeaseLost | QueueFull:
    """Commit a flow; see `FlowVerbs.commit`. A refusal that writes is answered, not raised."""
    if fence is None:
        must_take_work(tx)
    else:
        must_take_writes(tx)
        if not may_enqueue(tx, fence):
            return LeaseLost(*fence)
    if tx.one("flow", "committed", flow=flow) is not None:
        return False
    if not _is_whole(tx, flow, chunks):
        raise FlowIncomplete(flow)
    if caps and (full := _over_cap(tx, flow, chunks, caps)):
        drop(tx, flow)
        return full
    return commit_staged(tx, flow, chunks)


def _is_whole(tx: Transaction, flow: str, chunks: int) -> bool:
    ((places,),) = tx.run("flow", "places", flow=flow, chunks=chunks)
    return bool(places == chunks)


def _over_cap(tx: Transaction, flow: str, chunks: int, caps: Mapping[str, int]) -> QueueFull | None:
    requested: dict[str, int] = dict(tx.run("flow", "by_queue", flow=flow, chunks=chunks))
    return flow_over_cap(requested, caps, lambda queue: waiting_in(tx, queue))


def commit_staged(tx: Transaction, flow: str, chunks: int) -> bool:
    """Commit a flow as part of another verb. False, with nothing written, if a part is missing or
    the flow is committed already: its children would then not count for this verb's job.
    """
    if not _is_whole(tx, flow, chunks) or tx.one("flow", "committed", flow=flow) is not None:
        return False
    tx.run("flow", "commit", flow=flow, chunks=chunks, now=tx.now)
    tx.unfinished = True
    return True


def drop(tx: Transaction, flow: str) -> None:
    """Remove the staged parts of a flow."""
    tx.run("flow", "drop", flow=flow)


def write_out(tx: Transaction) -> tuple[int, bool]:
    """Write jobs of committed flows, at most 1,000: how many are ready, and if more are left."""
    ready, budget = 0, CHUNK
    while found := tx.one("flow", "next"):
        flow, chunks, written, text = found
        nothing: list[NewJob] = []
        jobs = or_else("flow", flow, f"part {written}", _jobs, text, nothing) if text else nothing
        if len(jobs) > budget:
            return ready, True
        budget -= len(jobs)
        ready += _write(tx, jobs)
        tx.run("flow", "written", flow=flow, place=written)
        if written + 1 >= chunks:
            drop(tx, flow)
        if budget == 0:
            break
    return ready, tx.one("flow", "next") is not None


_jobs = msgspec.json.Decoder(list[NewJob]).decode


def _write(tx: Transaction, jobs: Sequence[NewJob]) -> int:
    ((last, *_),) = tx.run("enqueue", "last")
    receipts = take_in(tx, last, jobs, known_of(tx, jobs), flow=True)
    new = (receipt for receipt in receipts.values() if receipt.outcome == "new")
    return sum(receipt.state is State.READY for receipt in new)


def children(tx: Transaction, job: str, cursor: str | None, limit: int) -> JobList:
    """The children of a job, oldest first; see `FlowVerbs.children`."""
    size = page_size(limit)
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise cursor_not_given(cursor)
    rows = tx.run("flow", "children", parent=job, after=int(cursor or 0), limit=size + 1)
    more = len(rows) > size
    rows = rows[:size]
    return JobList(tuple(job_of(row) for row in rows), str(rows[-1][0]) if more else None)
