"""How many jobs a claim may take: of each queue by its rules, of each task by its breakers."""

from collections.abc import Iterable, Mapping

from limpet.domain.breaker import BreakerStatus
from limpet.domain.queue import QueueRules
from limpet.domain.state import State
from limpet.storage.records.texts import rules_in_force
from limpet.storage.sql.rows import Row
from limpet.storage.sqlite.breakers import not_closed, probed
from limpet.storage.sqlite.transaction import Transaction

# How much one job adds to the pace of a queue of weight 1; see `Shares`.
_STRIDE = 1_000_000


class QueueAllowance:
    """How many jobs this claim may take of a queue that has settings."""

    def __init__(self, tx: Transaction, queue: str, columns: Row) -> None:
        held_until, given_until, declared, adjusted, pace, running = columns
        self.queue = queue
        self.rules: QueueRules = rules_in_force(queue, declared, adjusted)
        self.pace: int = pace
        self._now = tx.now
        self._held_until: int = held_until
        self._given_until: int = given_until
        self._running = (running or 0) + tx.change(queue, State.RUNNING)
        self._began = 0
        self._next_at: int | None = None

    def left(self, most: int, ready: int) -> int:
        """How many jobs may be taken: at most `most`, while `ready` are ready."""
        if self._held_until > self._now:
            self._next_at = self._held_until
            return 0
        if self.rules.concurrency is not None:
            most = min(most, self.rules.concurrency - self._running)
        rate = self.rules.rate
        if rate is not None and min(most, ready) > 0:
            free = rate.allowed(self._given_until, self._now)
            if free < min(most, ready):
                most = free
                taken = rate.taken(self._given_until, self._now, max(0, free))
                self._next_at = rate.next_at(taken, self._now)
        return max(0, most)

    def take(self, count: int) -> None:
        """Record that jobs were taken."""
        self._running += count
        self._began += count
        if self.rules.rate is not None:
            self._given_until = self.rules.rate.taken(self._given_until, self._now, count)

    def keep(self, tx: Transaction) -> int | None:
        """Write the use of the rate; answers when more may be taken, if time keeps jobs back."""
        if self._began and self.rules.rate is not None:
            tx.run("limits", "given", queue=self.queue, given_until=self._given_until)
        return self._next_at


class Shares:
    """The queues that are served by weight, and how much each has had (its pace)."""

    def __init__(self, tx: Transaction, known: Mapping[str, QueueAllowance]) -> None:
        self._known = known
        ((most,),) = tx.run("limits", "most_served")
        # A queue that had no jobs for long must not get all its missed shares at once.
        self._least = max(0, most - _STRIDE)
        self._had: dict[str, int] = {}

    def had(self, queue: str) -> int:
        """How much a queue has had; the queue with the least is next."""
        if queue not in self._had:
            known = self._known.get(queue)
            self._had[queue] = max(known.pace if known else 0, self._least)
        return self._had[queue]

    def take(self, queue: str) -> None:
        """Record that one job of the queue was taken."""
        known = self._known.get(queue)
        weight = (known.rules.weight if known else None) or 1
        self._had[queue] = self.had(queue) + max(1, _STRIDE // weight)

    def keep(self, tx: Transaction) -> None:
        """Write how much each queue has had."""
        tx.many("limits", "served", self._had.items())


class Probes:
    """The breakers that are not closed: each lets one job through once `probe_at` has come."""

    def __init__(self, tx: Transaction) -> None:
        self._now = tx.now
        self._of: dict[str, list[BreakerStatus]] = {}
        self.next_at: int | None = None
        self._reserved: dict[int, list[BreakerStatus]] = {}
        self._spent: dict[str, str] = {}  # breaker → the task of its probe
        self._kept_back: set[str] = set()
        for breaker in not_closed(tx):
            for task in breaker.rules.tasks:
                self._of.setdefault(task, []).append(breaker)

    def left(self, task: str, most: int) -> int:
        """How many jobs of the task may be read as candidates, at most `most`."""
        held_by = self._of.get(task)
        if not held_by:
            return most
        later = max(breaker.probe_at or 0 for breaker in held_by)
        if later > self._now:
            self.next_at = earlier(self.next_at, later)
            return 0
        spent = [breaker.rules.name for breaker in held_by if breaker.rules.name in self._spent]
        self._kept_back.update(name for name in spent if self._spent[name] != task)
        # One more than may be taken, to see whether any job is kept back.
        return 0 if spent else min(most, 2)

    def reserve(self, task: str, line: list[int]) -> int:
        """Reserve the first candidate as the probe; answers how many candidates may be taken."""
        held_by = self._of.get(task)
        if not held_by:
            return len(line)
        for breaker in held_by:
            self._spent[breaker.rules.name] = task
            if len(line) > 1:
                self._kept_back.add(breaker.rules.name)
        self._reserved[line[0]] = held_by
        return 1

    def keep(self, tx: Transaction, taken: Iterable[int]) -> None:
        """Write which breakers have a probe now."""
        for n in taken:
            for breaker in self._reserved.get(n, ()):
                probed(tx, breaker, n)
                if breaker.rules.name in self._kept_back:
                    self.next_at = earlier(self.next_at, tx.now + breaker.rules.probe_after)


def earlier(one: int | None, other: int | None) -> int | None:
    """The earlier of two times, either of which may be None."""
    return min((at for at in (one, other) if at is not None), default=None)
