"""ready → running, as far as the session has room."""

from collections import Counter
from heapq import merge
from typing import NamedTuple

import msgspec

from limpet.domain.event import EventName
from limpet.domain.job import ClaimedJob, Counters
from limpet.domain.lease import Lease
from limpet.domain.state import Move, State
from limpet.storage.base import ANY_QUEUE, CHUNK, Pool, Want
from limpet.storage.sqlite.transaction import Row, Transaction, to_json


def claim(tx: Transaction, session: str, want: Want) -> list[int]:
    """Take jobs for the session; the answer is their row numbers, in order."""
    # A job that was settled back to ready a moment ago, in this very step, may be taken again.
    if tx.has_moved(State.READY):
        tx.flush_gauges()
    taken: list[int] = []
    per_queue: Counter[str] = Counter()
    for pool in want.pools:
        taken += _for_pool(tx, session, pool, per_queue)
    return taken


def _for_pool(tx: Transaction, session: str, pool: Pool, per_queue: Counter[str]) -> list[int]:
    room = min(pool.total, CHUNK)
    if room <= 0:
        return []
    spare = pool.slots.get(ANY_QUEUE, 0)
    lines: list[list[_Candidate]] = []
    limits: dict[str, int] = {}
    for (queue,) in tx.run("claim", "queues"):
        # Pools share the slots of a queue that is named, because its limit is the worker's.
        slots = pool.slots[queue] - per_queue[queue] if queue in pool.slots else spare
        limit = min(slots, room)
        if limit > 0 and (found := _candidates(tx, queue, pool, limit)):
            lines.append(found)
            limits[queue] = limit
    picked = _pick(lines, limits, room, pool.suspects)
    numbers = [each.n for each in picked]
    tx.many("claim", "take", ((session, tx.now, n) for n in numbers))
    for queue, count in Counter(each.queue for each in picked).items():
        per_queue[queue] += count
        tx.moved(queue, Move.CLAIM, State.READY, State.RUNNING, count)
    return numbers


class _Candidate(NamedTuple):
    sort_key: int
    n: int
    queue: str
    suspect: int


def _pick(
    lines: list[list[_Candidate]], limits: dict[str, int], room: int, suspects: int
) -> list[_Candidate]:
    """The first of all queues together, no more suspects than can run alone."""
    picked: list[_Candidate] = []
    for each in lines[0] if len(lines) == 1 else merge(*lines):
        if len(picked) == room:
            break
        if limits[each.queue] == 0 or (each.suspect and suspects == 0):
            continue
        limits[each.queue] -= 1
        suspects -= each.suspect
        picked.append(each)
    return picked


def _candidates(tx: Transaction, queue: str, pool: Pool, limit: int) -> list[_Candidate]:
    """What may be taken from one queue, in order: as many of either kind as there is room for,
    because suspects that another queue's suspects keep out must not stand in for the others.
    """
    found: list[_Candidate] = []
    for task, in_pool, known in tx.run("claim", "tasks", queue=queue, tasks=pool.tasks):
        if not known:
            _block_strangers(tx, queue, task)
        for suspect, most in ((0, limit), (1, min(limit, pool.suspects))):
            if in_pool and most > 0:
                rows = tx.run(
                    "claim",
                    "candidates",
                    queue=queue,
                    task=task,
                    suspect=suspect,
                    now=tx.now,
                    limit=most,
                )
                found += [_Candidate(key, n, queue, suspect) for n, key in rows]
    found.sort()
    return found


def _block_strangers(tx: Transaction, queue: str, task: str) -> None:
    """Ready → blocked for jobs whose task no live session knows, so that nobody spins on them."""
    strangers = tx.run("claim", "strangers", queue=queue, task=task, limit=CHUNK)
    tx.many("claim", "block", strangers)
    tx.many("claim", "block_reason", ((n, task, tx.now) for (n,) in strangers))
    for (n,) in strangers:
        tx.record(n, EventName.BLOCKED)
    tx.moved(queue, Move.BLOCK, State.READY, State.BLOCKED, len(strangers))


def claimed(tx: Transaction, session: str, numbers: list[int]) -> tuple[ClaimedJob, ...]:
    """What the holder needs to run the jobs that it took."""
    if not numbers:
        return ()
    rows = tx.run("claim", "taken", numbers=to_json(numbers), session=session)
    return tuple(_claimed(session, row) for row in rows)


def _claimed(session: str, row: Row) -> ClaimedJob:
    counters = Counters(row[5], row[6], row[7])
    return ClaimedJob(
        lease=Lease(row[0], session, row[1]),
        task=row[2],
        queue=row[3],
        attempt=counters.failures + counters.orphans + 1,
        round=row[4],
        counters=counters,
        suspect=bool(row[8]),
        last_run=bool(row[9]),
        payload_version=row[10],
        deadline_at=row[11],
        args=row[12],
        options=row[13],
        secrets=() if row[14] == "[]" else tuple(msgspec.json.decode(row[14], type=list[str])),
    )
