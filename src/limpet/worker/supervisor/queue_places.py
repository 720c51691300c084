"""Places of the queues that have a limit in this worker, and the jobs that wait for them here.

A job of such a queue goes to an executor only when its queue has a free place, so no executor ever
has more jobs of a queue than may run. The next jobs of the queue wait in the supervisor, and start
as places come free, without an exchange with the store in between.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from limpet.worker.supervisor.demand import Throughput
from limpet.worker.supervisor.ledger import Hold, Ledger
from limpet.worker.wire.page import now

# How much work of a queue waits here, by the measured throughput of that queue.
_AHEAD_SECONDS = 0.05
_MOST_AHEAD_BYTES = 1024 * 1024
# Jobs of which none has begun for this long are handed back: another worker may be idle.
_LONGEST_WAIT_US = 100_000


class QueuePlaces:
    """Which of the held jobs may start, by the limits that this worker has for its queues."""

    def __init__(self, limits: Mapping[str, int | None], ledger: Ledger) -> None:
        self._ledger = ledger
        self._lines = {
            queue: _QueueLine(queue, limit, ledger)
            for queue, limit in limits.items()
            if limit is not None
        }

    def enter(self, hold: Hold) -> bool:
        """Whether the job waits here until `started` returns it; its queue has a limit then."""
        line = self._lines.get(hold.claimed.queue)
        if line is not None:
            line.enter(hold)
        return line is not None

    def started(self) -> Iterator[Hold]:
        """The jobs that have got a place since the last call, in the order of each queue."""
        for line in self._lines.values():
            yield from line.started()

    def overdue(self) -> Iterator[Hold]:
        """Jobs that wait behind a job that goes on; they wait here no longer."""
        moment = now()
        for line in self._lines.values():
            if line.waiting and moment - line.moved_at > _LONGEST_WAIT_US:
                yield from line.empty()
                line.forget_throughput()

    def behind(self, holds: Iterable[Hold]) -> Iterator[Hold]:
        """Jobs that wait here behind jobs that go back to the store; they wait here no longer.

        The store gives all of them out again in order, the jobs that went back first.
        """
        for line in self._of(holds):
            yield from line.empty()

    def close(self, holds: Iterable[Hold]) -> None:
        """Start no job of these queues until the store knows that the holds came back."""
        for line in self._of(holds):
            line.close()

    def late(self) -> Iterator[Hold]:
        """Jobs that came from an exchange which had not brought back the jobs before them."""
        for line in self._lines.values():
            if line.is_closed:
                yield from line.empty()

    def _of(self, holds: Iterable[Hold]) -> "Iterator[_QueueLine]":
        for queue in {hold.claimed.queue for hold in holds}:
            if (line := self._lines.get(queue)) is not None:
                yield line

    def empty(self) -> Iterator[Hold]:
        """All jobs that wait; they wait here no longer."""
        for line in self._lines.values():
            yield from line.empty()

    def remove(self, hold: Hold) -> bool:
        """Whether the job was waiting here; it no longer does."""
        line = self._lines.get(hold.claimed.queue)
        return line is not None and line.remove(hold)

    @property
    def waiting_suspects(self) -> int:
        return sum(hold.claimed.suspect for line in self._lines.values() for hold in line.waiting)

    def wanted(self, queue: str, limit: int, *, ahead: bool) -> int:
        """How many jobs of a queue are worth a claim now: for its free places, and to wait here.

        `ahead`: whether jobs may wait here at all.
        """
        line = self._lines[queue]
        if line.is_closed:
            return 0  # what came now would only go back
        places = limit - self._ledger.per_queue[queue]
        if not ahead:
            return places
        to_wait = line.most_ahead()
        # Not one by one: what waits already is enough for now.
        return 0 if len(line.waiting) > to_wait // 2 else places + to_wait


class _QueueLine:
    """One queue: the jobs that wait for a place of it, the first to start first."""

    def __init__(self, queue: str, limit: int, ledger: Ledger) -> None:
        self._queue = queue
        self._limit = limit
        self._ledger = ledger
        self.waiting: deque[Hold] = deque()
        self.moved_at = now()  # when a job last started, or the first began to wait
        self._throughput = Throughput()
        self._entered = self._left = self._bytes = 0
        self._ended = 0
        self._closed_until = 0

    def close(self) -> None:
        self._closed_until = self._ledger.outcomes

    @property
    def is_closed(self) -> bool:
        """Whether the store has not answered yet that jobs of the queue came back."""
        return self._ledger.answered_outcomes < self._closed_until

    @property
    def _has_place(self) -> bool:
        return self._ledger.per_queue[self._queue] - len(self.waiting) < self._limit

    def enter(self, hold: Hold) -> None:
        if not self.waiting:
            self.moved_at = now()
        self._entered += 1
        self._bytes += len(hold.claimed.args)
        self.waiting.append(hold)

    def started(self) -> Iterator[Hold]:
        while self.waiting and self._has_place and not self.is_closed:
            self.moved_at = now()
            yield self.waiting.popleft()

    def empty(self) -> Iterator[Hold]:
        while self.waiting:
            self._left += 1
            yield self.waiting.popleft()

    def remove(self, hold: Hold) -> bool:
        try:
            self.waiting.remove(hold)
        except ValueError:
            return False
        self._left += 1
        return True

    def forget_throughput(self) -> None:
        """Claim nothing ahead until the throughput is measured anew."""
        self._throughput = Throughput()

    def most_ahead(self) -> int:
        """How many jobs may wait here, by the throughput and the size of the queue's jobs."""
        held = self._ledger.per_queue[self._queue]
        ended = self._entered - self._left - held
        self._throughput.finished(max(0, ended - self._ended))
        self._ended = ended
        self._throughput.measure(busy=held > 0)
        per_second = self._throughput.per_second
        count = int(per_second * _AHEAD_SECONDS)
        if not count and per_second * _LONGEST_WAIT_US >= 1e6:
            count = 1
        return min(count, _MOST_AHEAD_BYTES * max(1, self._entered) // max(1, self._bytes))
