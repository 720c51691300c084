"""Hands back jobs that do not start soon: to another executor, or to the store."""

from collections.abc import Collection

from limpet.domain.cause import NotStarted
from limpet.domain.transition import Release
from limpet.worker.supervisor.attempt_limits import Limits
from limpet.worker.supervisor.demand import Demand
from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.supervisor.executors import Executors
from limpet.worker.supervisor.ledger import Hold, Ledger
from limpet.worker.supervisor.placement import Placement
from limpet.worker.wire.frames import LANE, LOOP

# A job that waits this long in an executor, behind a job that goes on, is taken back.
_HELD_UP_MICROSECONDS = 50_000
# How long jobs wait for an executor that starts, and how long it may take at all.
_SLOW_START_MICROSECONDS, _LONGEST_START_MICROSECONDS = 1_000_000, 60_000_000
_BEHIND = "jobs of its queue that come back are ahead of it"


class Unstarted:
    """The jobs of a session that have not started."""

    def __init__(
        self,
        ledger: Ledger,
        executors: Executors,
        placement: Placement,
        limits: Limits,
        demand: Demand,
    ) -> None:
        self._ledger = ledger
        self._executors = executors
        self._placement = placement
        self._limits = limits
        self._demand = demand
        self._waiting_since = {LOOP: 0, LANE: 0}

    def look(self, executor: Executor, moment: int) -> None:
        """Take back the jobs of an executor that starts none of them."""
        if not executor.ready:
            self._look_for_slow_start(executor, moment)
            return
        waiting = len(executor.unstarted)
        if not waiting or executor.last_waiting != waiting or self._reads_yet(executor):
            executor.last_waiting = waiting
            executor.stuck_since = moment
        elif moment - executor.stuck_since > _HELD_UP_MICROSECONDS:
            executor.stuck_since = moment
            self.take_back(executor)

    def look_at_waiting(self, moment: int) -> None:
        """Hand back jobs that wait for an executor, or for a place of their queue, too long."""
        for kind, waiting in self._placement.waiting.items():
            if not waiting or self._one_is_starting(kind):
                self._waiting_since[kind] = moment
            elif moment - self._waiting_since[kind] > _HELD_UP_MICROSECONDS:
                self._hand_back(waiting, "no executor was free for it")
                waiting.clear()
        overdue = list(self._placement.queues.overdue())
        self._hand_back(overdue, "jobs of its queue that go on were ahead of it")

    def take_back(self, executor: Executor) -> None:
        """Take back jobs that have not started: for another executor, or for the store."""
        back = executor.take_back()
        if not back:
            return
        # A suspect may not share an executor with other jobs.
        idle = 0 if executor.for_suspect else self._placement.idle(executor.kind)
        kept = idle if executor.kind == LANE else idle * len(back)
        self._placement.waiting[executor.pool].extend(back[:kept])
        self._hand_back(back[kept:], "a job that goes on was ahead of it")
        self._placement.place()

    def hand_back_all(self) -> None:
        """The worker is stopping: hand back jobs that have not started, for other workers."""
        why = "the worker was asked to stop"
        for executor in self._executors.by_number.values():
            self._hand_back(executor.take_back(), why)
        self._hand_back(list(self._placement.queues.empty()), why)
        for waiting in self._placement.waiting.values():
            self._hand_back(waiting, why)
            waiting.clear()

    def hand_back_behind(self, holds: Collection[Hold]) -> None:
        """Hand back the jobs that wait for a place of a queue behind jobs that were lost."""
        self._release([*self._placement.queues.behind(holds)], _BEHIND)
        self._placement.queues.close(holds)

    def hand_back_late(self) -> None:
        """Hand back the jobs that were claimed before the jobs ahead of them had come back."""
        late = list(self._placement.queues.late())
        self._hand_back(late, _BEHIND)

    def _hand_back(self, holds: Collection[Hold], why: str) -> None:
        if holds:
            self._release([*holds, *self._placement.queues.behind(holds)], why)
            self._placement.queues.close(holds)

    def _release(self, holds: Collection[Hold], why: str) -> None:
        for hold in holds:
            self._limits.forget(hold)
            self._ledger.settle(hold, Release(hold.lease, NotStarted(why)))
        if holds:
            self._demand.wake()

    def _one_is_starting(self, kind: str) -> bool:
        return any(not other.ready and not other.slow for other in self._executors.of_kind(kind))

    def _look_for_slow_start(self, executor: Executor, moment: int) -> None:
        waited = moment - executor.started_at
        if waited > _SLOW_START_MICROSECONDS and not executor.slow:
            executor.slow = True
            self.take_back(executor)
        if waited > _LONGEST_START_MICROSECONDS and not executor.doomed:
            executor.start_error = "its on_start hooks did not end"
            self._limits.doom(executor)

    @staticmethod
    def _reads_yet(executor: Executor) -> bool:
        """Whether the executor could not begin its jobs yet, as frames are still on the way."""
        return executor.has_unread and not any(hold.goes_on for hold in executor.holds.values())
