"""Many jobs that come into being at one moment: stage, commit, write out; and children."""

from collections.abc import Sequence

import msgspec

from limpet.domain.errors import FlowIncomplete, LeaseLost
from limpet.domain.job import NewJob, Page
from limpet.domain.lease import Lease
from limpet.domain.state import State
from limpet.storage.base import CHUNK
from limpet.storage.bounds import page_size
from limpet.storage.refusals import cursor_not_given
from limpet.storage.rows import job_of
from limpet.storage.sqlite.enqueue import known_of, may_hand_in
from limpet.storage.sqlite.relocate import must_take_work, must_take_writes
from limpet.storage.sqlite.shaped import take_in
from limpet.storage.sqlite.transaction import Transaction
from limpet.storage.texts import to_json


def stage(tx: Transaction, flow: str, place: int, jobs: Sequence[NewJob]) -> None:
    """Keep jobs aside; see `FlowVerbs.stage`."""
    must_take_writes(tx)
    if tx.one("flow", "committed", flow=flow) is None:  # a late repeat is not written out again
        tx.run("flow", "stage", flow=flow, place=place, jobs=to_json(jobs), now=tx.now)


def commit(tx: Transaction, flow: str, chunks: int, fence: Lease | None = None) -> bool | LeaseLost:
    """All of a flow comes into being; see `FlowVerbs.commit`. A lost lease is answered."""
    if fence is None:
        must_take_work(tx)
    else:
        must_take_writes(tx)
        if not may_hand_in(tx, fence):
            return LeaseLost(*fence)
    if tx.one("flow", "committed", flow=flow) is not None:
        return False
    if not commit_staged(tx, flow, chunks):
        raise FlowIncomplete(flow)
    return True


def commit_staged(tx: Transaction, flow: str, chunks: int) -> bool:
    """The same where it is part of another verb; False, with nothing written, if a part lacks or
    it is committed already: then nobody would count its children for the one who asks.
    """
    ((places,),) = tx.run("flow", "places", flow=flow, chunks=chunks)
    if places != chunks or tx.one("flow", "committed", flow=flow) is not None:
        return False
    tx.run("flow", "commit", flow=flow, chunks=chunks, now=tx.now)
    tx.unfinished = True
    return True


def drop(tx: Transaction, flow: str) -> None:
    """Forget what was staged of a flow that nobody will commit."""
    tx.run("flow", "drop", flow=flow)


def write_out(tx: Transaction) -> tuple[int, bool]:
    """Write jobs of committed flows, at most 1,000; how many are ready, and if more are left."""
    ready, room = 0, CHUNK
    while found := tx.one("flow", "next"):
        flow, chunks, written, text = found
        jobs = _jobs(text) if text is not None else []
        if len(jobs) > room:
            return ready, True
        room -= len(jobs)
        ready += _write(tx, jobs)
        tx.run("flow", "written", flow=flow, place=written)
        if written + 1 >= chunks:
            drop(tx, flow)
        if room == 0:
            break
    return ready, tx.one("flow", "next") is not None


_jobs = msgspec.json.Decoder(list[NewJob]).decode


def _write(tx: Transaction, jobs: Sequence[NewJob]) -> int:
    ((last, *_),) = tx.run("enqueue", "last")
    receipts = take_in(tx, last, jobs, known_of(tx, jobs), flow=True)
    new = (each for each in receipts.values() if each.outcome == "new")
    return sum(each.state is State.READY for each in new)


def children(tx: Transaction, job: str, cursor: str | None, limit: int) -> Page:
    """The children of a job, oldest first; see `FlowVerbs.children`."""
    size = page_size(limit)
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise cursor_not_given(cursor)
    rows = tx.run("flow", "children", parent=job, after=int(cursor or 0), limit=size + 1)
    more = len(rows) > size
    rows = rows[:size]
    return Page(tuple(job_of(row) for row in rows), str(rows[-1][0]) if more else None)
