"""Many jobs that come into being at one moment: stage, commit, write out; and children."""

from collections.abc import Sequence
from functools import partial

import msgspec

from limpet.domain.errors import FlowIncomplete, LeaseLost
from limpet.domain.job import NewJob, Page
from limpet.domain.lease import Lease
from limpet.domain.state import State
from limpet.storage.answers import Receipt
from limpet.storage.base import CHUNK
from limpet.storage.bounds import page_size
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.enqueue import admit, may_hand_in
from limpet.storage.postgres.lists import column
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.refusals import cursor_not_given
from limpet.storage.rows import job_of
from limpet.storage.texts import to_json

# How many flows are forgotten at once.
MOST_FLOWS = 10


def stage(tx: Transaction, flow: str, place: int, jobs: Sequence[NewJob]) -> None:
    """Keep jobs aside; see `FlowVerbs.stage`."""
    tx.call("pass", False)
    tx.run("flow", "begin", flow=flow, wall=tx.wall)
    ((_, committed_at),) = tx.run("flow", "lock", flow=flow)
    if committed_at is not None:  # a late repeat is not written out again
        return
    column([text for job in jobs for text in (job.id, job.args, job.options)])  # or it is refused
    tx.run("flow", "clear", flow=flow, place=place)
    rows = to_json([(job.id, job.parent, to_json(job)) for job in jobs])
    tx.run("flow", "stage", flow=flow, place=place, rows=rows)
    tx.run("flow", "staged", flow=flow, place=place, wall=tx.wall)


def commit(tx: Transaction, flow: str, chunks: int, fence: Lease | None = None) -> bool | LeaseLost:
    """All of a flow comes into being; see `FlowVerbs.commit`. A lost lease is answered."""
    tx.call("pass", fence is None)
    if fence is not None and not may_hand_in(tx, fence):
        return LeaseLost(*fence)
    row = tx.one("flow", "lock", flow=flow)
    if row is not None and row[1] is not None:
        return False
    if not _commit(tx, flow, chunks, row[0] if row else []):
        raise FlowIncomplete(flow)
    return True


def commit_staged(tx: Transaction, flow: str, chunks: int) -> bool:
    """The same where it is part of another verb; False, with nothing written, if a part lacks."""
    row = tx.one("flow", "lock", flow=flow)
    return row is not None and row[1] is None and _commit(tx, flow, chunks, row[0])


def _commit(tx: Transaction, flow: str, chunks: int, places: Sequence[int]) -> bool:
    if not set(range(chunks)) <= set(places):
        return False
    tx.run("flow", "drop", flow=flow, chunks=chunks)
    tx.run("flow", "commit", flow=flow, wall=tx.wall)
    return True


def drop(tx: Transaction, flow: str) -> None:
    """Forget what was staged of a flow that nobody will commit."""
    row = tx.one("flow", "lock", flow=flow)
    if row is not None and row[1] is None:
        tx.run("flow", "drop", flow=flow, chunks=0)
        tx.run("flow", "forget", flow=flow)


_job = msgspec.json.Decoder(NewJob).decode


def write_out(database: Database) -> int:
    """Write jobs of committed flows, parents first, at most 1,000; how many are ready.

    A transaction for each flow: none may ask for keys twice (functions/06_turns.sql, locks).
    """
    ready, room = 0, CHUNK
    while room and (told := database.write(partial(_write_next, room=room))) is not None:
        ready += sum(each.outcome == "new" and each.state is State.READY for each in told)
        room -= len(told)
    return ready


def _write_next(tx: Transaction, room: int) -> list[Receipt] | None:
    found = tx.one("flow", "committed")
    if found is None:
        return None
    flow = found[0]
    rows = tx.run("flow", "next", flow=flow, limit=room)
    rows = rows or tx.run("flow", "any", flow=flow, limit=room)
    told = admit(tx, [_job(text) for _, text in rows], flow=True)
    if rows:
        tx.run("flow", "written", flow=flow, ids=column([id_ for id_, _ in rows]))
    tx.run("flow", "finish", flow=flow)
    return told


def forget_old(tx: Transaction, before: int) -> int:
    """Remove what was not committed in time, and the names of flows that were; how many."""
    old = [str(row[0]) for row in tx.run("flow", "old", before=before, limit=MOST_FLOWS)]
    for flow in old:
        tx.run("flow", "drop", flow=flow, chunks=0)
        tx.run("flow", "forget", flow=flow)
    return len(old)


def children(tx: Transaction, job: str, cursor: str | None, limit: int) -> Page:
    """The children of a job, oldest first; see `FlowVerbs.children`."""
    size = page_size(limit)
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise cursor_not_given(cursor)
    rows = tx.run("flow", "children", parent=job, after=int(cursor or 0), limit=size + 1)
    more = len(rows) > size
    rows = rows[:size]
    return Page(tuple(job_of(row) for row in rows), str(rows[-1][0]) if more else None)
