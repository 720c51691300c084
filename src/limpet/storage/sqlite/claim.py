"""ready → running, for as many jobs as the session has places."""

from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace, merge
from typing import Any, NamedTuple, TypeAlias

import msgspec

from limpet.domain.cause import Needs
from limpet.domain.event import EventName
from limpet.domain.job import ClaimedJob
from limpet.domain.lease import Lease
from limpet.domain.permit import PassedOver
from limpet.domain.state import Move, State
from limpet.domain.weight import Weight
from limpet.storage.contract.store import ANY_QUEUE, CHUNK, Pool, Want
from limpet.storage.records.claimed import claimed_of
from limpet.storage.records.texts import to_json
from limpet.storage.records.unreadable import NONSENSE
from limpet.storage.sql.rows import Row
from limpet.storage.sqlite.admission import Admission
from limpet.storage.sqlite.after import after
from limpet.storage.sqlite.allowance import Probes, QueueAllowance, Shares, earlier
from limpet.storage.sqlite.transaction import LARGE, Transaction


class Claimed(NamedTuple):
    """The numbers of the claimed jobs, in order.

    `next_at`: when jobs may be claimed that time kept back. `passed_over`: what the gate kept back.
    """

    numbers: list[int]
    next_at: int | None = None
    passed_over: PassedOver = PassedOver.NOTHING


def claim(tx: Transaction, session: str, want: Want) -> Claimed:
    """Claim jobs for the session."""
    # Jobs that this very step settled back to ready may be claimed again at once.
    if tx.has_moved(State.READY):
        tx.flush_gauges()
    gate = Admission(tx, want.gate)
    step = _Claim(tx, session, gate)
    taken: list[int] = []
    for pool in want.pools:
        taken += step.for_pool(pool)
    return Claimed(taken, step.finish(taken), gate.passed_over)


class _Claim:
    """One claim. Its pools share the slots of named queues, and what the queues allow."""

    def __init__(self, tx: Transaction, session: str, gate: Admission) -> None:
        self._tx = tx
        self._session = session
        self._gate = gate
        self._per_queue: Counter[str] = Counter()
        self._known: dict[str, QueueAllowance] = {}
        self._probes = Probes(tx)

    def for_pool(self, pool: Pool) -> list[int]:
        places = min(pool.total, CHUNK)
        if places <= 0:
            return []
        lines: list[_Line] = []
        limits: dict[str, int] = {}
        rows = self._tx.run("claim", "queues")
        for queue, ready, _, *columns in rows:
            limits[queue] = self._limit(pool, queue, places, ready, columns)
            if limits[queue] > 0:
                lines += self._lines(queue, pool, limits[queue])
        if not lines:
            return []
        by_weight = rows[0][2]
        if by_weight and len({line.queue for line in lines}) > 1:
            shares = Shares(self._tx, self._known)
            numbers, taken = _share(lines, limits, places, pool.suspects, self._gate, shares)
            if len(numbers) == places:
                shares.keep(self._tx)
        else:
            numbers, taken = _pick(lines, limits, places, pool.suspects, self._gate)
        self._take(numbers, taken)
        return numbers

    def _limit(self, pool: Pool, queue: str, places: int, ready: int, columns: list[Any]) -> int:
        # Pools share the slots of a named queue, because its limit is that of the whole worker.
        spare = pool.slots.get(ANY_QUEUE, 0)
        slots = pool.slots[queue] - self._per_queue[queue] if queue in pool.slots else spare
        most = min(slots, places)
        if columns[0] is None or most <= 0:  # the queue has no settings
            return most
        if queue not in self._known:
            self._known[queue] = QueueAllowance(self._tx, queue, tuple(columns))
        return self._known[queue].left(most, ready + self._tx.change(queue, State.READY))

    def _take(self, numbers: list[int], taken: Counter[str]) -> None:
        tx = self._tx
        tx.run("claim", "take", numbers=to_json(numbers), session=self._session, now=tx.now)
        for queue, count in taken.items():
            self._per_queue[queue] += count
            tx.moved(queue, Move.CLAIM, State.READY, State.RUNNING, count)
            if queue in self._known:
                self._known[queue].take(count)

    def finish(self, taken: list[int]) -> int | None:
        """Write permits, probes and use of rates; answers when jobs kept back may be claimed."""
        self._gate.keep(taken)
        self._probes.keep(self._tx, taken)
        next_at = self._probes.next_at
        for known in self._known.values():
            next_at = earlier(next_at, known.keep(self._tx))
        return next_at

    def _lines(self, queue: str, pool: Pool, limit: int) -> "list[_Line]":
        """The candidates of one queue: suspects and others, each kind up to the limit. If the
        suspects of another queue take all places for suspects, there must still be enough others.
        """
        tx = self._tx
        found: list[_Line] = []
        for task, in_pool, known in tx.run("claim", "tasks", queue=queue, tasks=pool.tasks):
            if not known:
                _block_strangers(tx, queue, task)
            for suspect, kind in ((0, limit), (1, min(limit, pool.suspects))):
                most = self._probes.left(task, kind) if in_pool else 0
                if most > 0:
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
                        listed = _integers(numbers)
                        may = self._probes.reserve(task, listed)
                        found.append(
                            _Line(
                                queue,
                                suspect,
                                _integers(keys)[:may],
                                listed[:may],
                                self._gate.weight(task),
                            )
                        )
        return found


class _Line(NamedTuple):
    """Jobs of one queue, task and kind (suspect or not), in order; `weight`: that of each job."""

    queue: str
    suspect: int
    keys: list[int]
    numbers: list[int]
    weight: Weight | None

    def candidates(self) -> "Iterator[_Candidate]":
        for key, n in zip(self.keys, self.numbers, strict=True):
            yield key, n, self


# Sort key, number, line. No two numbers are equal, so lines are never compared.
_Candidate: TypeAlias = tuple[int, int, _Line]


class _Choice:
    """The choice among the jobs of some lines: no more of a queue than its limit, no more suspects
    than can run alone, none that does not fit the host.
    """

    def __init__(self, limits: dict[str, int], suspects: int, gate: Admission) -> None:
        self._limits = limits
        self._suspects = suspects
        self._gate = gate
        self._refused: set[int] = set()
        self.numbers: list[int] = []
        self.taken: Counter[str] = Counter()

    def is_full(self, queue: str) -> bool:
        return self.taken[queue] == self._limits[queue]

    def takes(self, n: int, line: _Line) -> bool:
        """Take a job if it may run. After one job did not fit the host, its line is skipped."""
        if self.is_full(line.queue) or (line.suspect and self._suspects == 0):
            return False
        if line.weight is not None:
            if id(line) in self._refused:
                return False
            if not self._gate.admits(n, line.weight):
                self._refused.add(id(line))
                return False
        self.taken[line.queue] += 1
        self._suspects -= line.suspect
        self.numbers.append(n)
        return True


def _pick(
    lines: list[_Line], limits: dict[str, int], places: int, suspects: int, gate: Admission
) -> tuple[list[int], Counter[str]]:
    """The first jobs of all lines together, and how many of each queue."""
    if len(lines) == 1 and lines[0].weight is None:
        # The line was read with this limit, so all of it may be taken.
        only = lines[0]
        return only.numbers, Counter({only.queue: len(only.numbers)})
    choice = _Choice(limits, suspects, gate)
    for _, n, line in merge(*(line.candidates() for line in lines)):
        if len(choice.numbers) == places:
            break
        choice.takes(n, line)
    return choice.numbers, choice.taken


def _share(
    lines: list[_Line],
    limits: dict[str, int],
    places: int,
    suspects: int,
    gate: Admission,
    shares: Shares,
) -> tuple[list[int], Counter[str]]:
    """Like `_pick`, but the next queue is always the one that has had the least for its weight."""
    choice = _Choice(limits, suspects, gate)
    queues = {line.queue: [other for other in lines if other.queue == line.queue] for line in lines}
    inline = {
        queue: merge(*(line.candidates() for line in of_it)) for queue, of_it in queues.items()
    }
    heads = [
        (shares.had(queue), min(line.keys[0] for line in of_it), queue)
        for queue, of_it in queues.items()
    ]
    heapify(heads)
    while heads and len(choice.numbers) < places:
        queue = heads[0][2]
        key = next((key for key, n, line in inline[queue] if choice.takes(n, line)), None)
        if key is None:
            heappop(heads)
            continue
        shares.take(queue)
        if choice.is_full(queue):
            heappop(heads)
        else:
            heapreplace(heads, (shares.had(queue), key, queue))
    return choice.numbers, choice.taken


_integers = msgspec.json.Decoder(list[int]).decode


def _block_strangers(tx: Transaction, queue: str, task: str) -> None:
    """Ready → blocked for jobs whose task no live session knows, so that claims skip them."""
    strangers = tx.run("claim", "strangers", queue=queue, task=task, limit=CHUNK)
    tx.many("claim", "block", strangers)
    tx.many("claim", "block_reason", ((n, task, tx.now) for (n,) in strangers))
    for (n,) in strangers:
        tx.record(n, EventName.BLOCKED, cause=Needs("task", task))
    tx.moved(queue, Move.BLOCK, State.READY, State.BLOCKED, len(strangers))
    after(tx, (n for (n,) in strangers))


def claimed(tx: Transaction, session: str, numbers: list[int]) -> tuple[ClaimedJob, ...]:
    """The claimed jobs with everything that their holder needs to run them."""
    if not numbers:
        return ()
    try:
        listed, count = _read(tx, session, numbers)
        jobs = _jobs(listed)
        # The list leaves out jobs with a large payload.
        if len(jobs) == count:
            return jobs
    except NONSENSE:  # one unreadable job must not cost the others
        pass
    alone = (tx.one("claim", "taken_alone", n=n, session=session) for n in numbers)
    return tuple(_claimed_alone(row) for row in alone if row is not None)


def _read(tx: Transaction, session: str, numbers: list[int]) -> tuple[str, int]:
    row = tx.one("claim", "taken", numbers=to_json(numbers), session=session, most=LARGE)
    return ("[]", 0) if row is None else (row[0], row[1])


def _claimed_alone(row: Row) -> ClaimedJob:
    id_, session, token, task, queue, attempt, round_, *counters, suspect, last_run = row[:12]
    lease = Lease(id_, session, token)
    return claimed_of(lease, task, queue, attempt, round_, counters, suspect, last_run, *row[12:])


# Not strict, because SQLite has 0 and 1 for false and true.
_jobs = msgspec.json.Decoder(tuple[ClaimedJob, ...], strict=False).decode
