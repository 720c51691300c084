"""ready → running, as far as the session has room."""

import sys
from collections import Counter
from collections.abc import Iterator
from heapq import merge
from typing import NamedTuple

import msgspec

from limpet.domain.cause import Needs
from limpet.domain.event import EventName
from limpet.domain.job import ClaimedJob
from limpet.domain.state import Move, State
from limpet.storage.base import ANY_QUEUE, CHUNK, Pool, Want
from limpet.storage.sqlite.transaction import LARGE, Transaction
from limpet.storage.texts import to_json


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
    lines: list[_Line] = []
    limits: dict[str, int] = {}
    for (queue,) in tx.run("claim", "queues"):
        # Pools share the slots of a queue that is named, because its limit is the worker's.
        slots = pool.slots[queue] - per_queue[queue] if queue in pool.slots else spare
        limits[queue] = min(slots, room)
        if limits[queue] > 0:
            lines += _lines(tx, queue, pool, limits[queue])
    if not lines:
        return []
    numbers, taken = _pick(lines, limits, room, pool.suspects)
    tx.run("claim", "take", numbers=to_json(numbers), session=session, now=tx.now)
    for queue, count in taken.items():
        per_queue[queue] += count
        tx.moved(queue, Move.CLAIM, State.READY, State.RUNNING, count)
    return numbers


class _Line(NamedTuple):
    """Jobs of one queue, task and kind, in order."""

    queue: str
    suspect: int
    keys: list[int]
    numbers: list[int]

    def candidates(self) -> Iterator[tuple[int, int, str, int]]:
        for key, n in zip(self.keys, self.numbers, strict=True):
            yield key, n, self.queue, self.suspect


def _pick(
    lines: list[_Line], limits: dict[str, int], room: int, suspects: int
) -> tuple[list[int], Counter[str]]:
    """The first of all lines together, no more suspects than can run alone; how many of each
    queue.
    """
    if len(lines) == 1:
        # As many as there is room for were asked for.
        only = lines[0]
        return only.numbers, Counter({only.queue: len(only.numbers)})
    picked: list[int] = []
    taken: Counter[str] = Counter()
    for _, n, queue, suspect in merge(*(line.candidates() for line in lines)):
        if len(picked) == room:
            break
        if taken[queue] == limits[queue] or (suspect and suspects == 0):
            continue
        taken[queue] += 1
        suspects -= suspect
        picked.append(n)
    return picked, taken


def _lines(tx: Transaction, queue: str, pool: Pool, limit: int) -> list[_Line]:
    """What may be taken from one queue: as many of either kind as there is room for, because
    suspects that another queue's suspects keep out must not stand in for the others.
    """
    found: list[_Line] = []
    for task, in_pool, known in tx.run("claim", "tasks", queue=queue, tasks=pool.tasks):
        if not known:
            _block_strangers(tx, queue, task)
        for suspect, most in ((0, limit), (1, min(limit, pool.suspects))):
            if in_pool and most > 0:
                ((keys, numbers),) = tx.run(
                    "claim",
                    "candidates",
                    queue=queue,
                    task=task,
                    suspect=suspect,
                    now=tx.now,
                    limit=most,
                )
                if numbers != "[]":
                    found.append(_Line(queue, suspect, _integers(keys), _integers(numbers)))
    return found


_integers = msgspec.json.Decoder(list[int]).decode


def _block_strangers(tx: Transaction, queue: str, task: str) -> None:
    """Ready → blocked for jobs whose task no live session knows, so that nobody spins on them."""
    strangers = tx.run("claim", "strangers", queue=queue, task=task, limit=CHUNK)
    tx.many("claim", "block", strangers)
    tx.many("claim", "block_reason", ((n, task, tx.now) for (n,) in strangers))
    for (n,) in strangers:
        tx.record(n, EventName.BLOCKED, cause=Needs("task", task))
    tx.moved(queue, Move.BLOCK, State.READY, State.BLOCKED, len(strangers))


def claimed(tx: Transaction, session: str, numbers: list[int]) -> tuple[ClaimedJob, ...]:
    """What the holder needs to run the jobs that it took."""
    if not numbers:
        return ()
    listed, large = _read(tx, session, numbers, LARGE)
    if not large:
        return _jobs(listed)
    # A large payload does not go into a list with others.
    alone = (_read(tx, session, [n], sys.maxsize)[0] for n in numbers)
    return tuple(job for read in alone for job in _jobs(read))


def _read(tx: Transaction, session: str, numbers: list[int], most: int) -> tuple[str, int]:
    row = tx.one("claim", "taken", numbers=to_json(numbers), session=session, most=most)
    return ("[]", 0) if row is None else (row[0], row[1])


# Not strict, because SQLite has 0 and 1 for what is true or false.
_jobs = msgspec.json.Decoder(tuple[ClaimedJob, ...], strict=False).decode
