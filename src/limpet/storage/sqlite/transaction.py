"""One verb's part of a transaction: its statements, its time, its counts, its bells."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import apsw

from limpet.domain.cause import Cause
from limpet.domain.clock import Clock
from limpet.domain.event import EventName
from limpet.domain.state import Move, State, allows
from limpet.storage.assets import script
from limpet.storage.contract.bell import Topic
from limpet.storage.records.texts import to_json
from limpet.storage.sql.rows import Row

PACKAGE = __package__ or "limpet.storage.sqlite"

# A text of more characters than this is not put into a list: a thousand of them are too much.
LARGE = 16_384

Value: TypeAlias = int | float | str | bytes | None


class Transaction:
    """The transaction of one verb: everything in it happens at one moment, or not at all."""

    def __init__(
        self, connection: apsw.Connection, clock: Clock, boot: str, namespace: str
    ) -> None:
        self.connection = connection
        self._namespace = namespace
        self.boot = boot
        self.now = clock.wall()
        self.now_lease = clock.boot()
        self.bells: set[Topic] = set()
        # Whether this verb left work for `promote`.
        self.unfinished = False
        self._gauges: Counter[tuple[str, str]] = Counter()
        self._totals: Counter[tuple[str, str]] = Counter()
        self._events: list[Sequence[Value]] = []

    def run(self, verb: str, statement: str, /, **params: Value) -> list[Row]:
        """Run one statement of a verb's script and return all its rows."""
        text = script(PACKAGE, "sql", verb, self._namespace)[statement]
        return self.connection.execute(text, params).fetchall()

    def one(self, verb: str, statement: str, /, **params: Value) -> Row | None:
        """Run one statement and return its first row."""
        rows = self.run(verb, statement, **params)
        return rows[0] if rows else None

    def many(self, verb: str, statement: str, rows: Iterable[Sequence[Value]]) -> list[Row]:
        """Run one statement for each tuple of values."""
        text = script(PACKAGE, "sql", verb, self._namespace)[statement]
        return self.connection.executemany(text, rows).fetchall()

    def changed(self) -> int:
        """How many rows the last statement changed."""
        return self.connection.changes()

    def total_changed(self) -> int:
        """How many rows the connection has changed in all."""
        return self.connection.total_changes()

    def moved(
        self, queue: str, move: Move, source: State | None, target: State, count: int = 1
    ) -> None:
        """Count a move of jobs; a move that is not in the table of states is a defect."""
        if not allows(move, source, target):
            raise AssertionError(f"the table of states has no {move}: {source} → {target}")
        if source is not None:
            self._gauges[queue, source] -= count
        self._gauges[queue, target] += count
        self._totals[queue, move] += count
        if target is State.READY:
            self.bells.add(Topic.READY)
        elif target in _ENDS:
            self.bells.add(Topic.DONE)

    def requeued(self, source: str, target: str, state: State, count: int) -> None:
        """Count jobs that went to another queue, waiting as before."""
        self._gauges[source, state] -= count
        self._gauges[target, state] += count
        self._totals[target, Move.REQUEUE] += count
        if state is State.READY:
            self.bells.add(Topic.READY)

    def counted(self, queue: str, name: str, count: int) -> None:
        """Add to a counter of the user's own, from a job of the queue."""
        self._totals[queue, f"count:{name}"] += count

    def removed(self, queue: str, state: State, count: int) -> None:
        """Count jobs that were pruned."""
        self._gauges[queue, state] -= count
        self._totals[queue, "prune"] += count

    def record(
        self,
        n: int,
        event: EventName,
        *,
        session: str | None = None,
        token: int | None = None,
        cause: Cause | None = None,
        claimed_at: int | None = None,
        settled: Move | None = None,
        at: int | None = None,
    ) -> None:
        """Add an event to a job's timeline."""
        cause_json = to_json(cause.record()) if cause is not None else None
        moment = self.now if at is None else at
        self._events.append((n, moment, event, session, token, cause_json, claimed_at, settled))

    def has_moved(self, state: State) -> bool:
        """Whether this verb moved jobs into or out of a state, in counts not written yet."""
        return any(touched == state and n for (_, touched), n in self._gauges.items())

    def change(self, queue: str, state: State) -> int:
        """How many jobs of a queue this verb moved into a state, in counts not written yet."""
        return self._gauges[queue, state]

    def flush_gauges(self) -> None:
        """Write the counts of jobs by state, for a statement of this verb that reads them."""
        if self._gauges:
            gauges = [(q, s, n) for (q, s), n in self._gauges.items() if n]
            self._gauges.clear()
            self.many("transaction", "gauge", gauges)

    def flush(self) -> None:
        """Write the counts and events; the last step before the commit."""
        if self._events:
            self.many("transaction", "event", self._events)
        self.flush_gauges()
        if self._totals:
            self.many("transaction", "total", ((q, m, n) for (q, m), n in self._totals.items()))


# The states that ring `done`, for which clients listen that wait for a result.
_ENDS: Mapping[State, None] = dict.fromkeys((State.SUCCEEDED, State.FAILED, State.CANCELLED))
