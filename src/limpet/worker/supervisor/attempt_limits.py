"""Keeps jobs to their limits: timeout, stall, deadline, cancellation; first softly, then by force.

A job that must stop is requested to stop. If it goes on after the grace, its executor is killed.
Jobs that share that executor get the grace too, and are then handed back uncharged.
"""

import time
from collections.abc import Mapping

from limpet.domain.cause import Cause, DeadlinePassed, Stalled, TimedOut
from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.supervisor.ledger import Hold, emit_for
from limpet.worker.wire.catalog import TaskFacts
from limpet.worker.wire.frames import LANE
from limpet.worker.wire.page import now
from limpet.worker.wire.plan import Plan


class Limits:
    """The jobs that have a limit or were requested to stop."""

    def __init__(self, plan: Plan, tasks: Mapping[str, TaskFacts]) -> None:
        self._grace_us = round(plan.settings.grace * 1e6)
        self._plan = plan
        self._tasks = tasks
        self._watched: dict[str, Hold] = {}
        self._doomed: dict[int, Executor] = {}

    def watch(self, hold: Hold) -> None:
        """Look at this job's limits with each tick."""
        self._watched[hold.lease.job] = hold

    def forget(self, hold: Hold) -> None:
        if self._watched.get(hold.lease.job) is hold:
            del self._watched[hold.lease.job]

    def stop(self, hold: Hold, cause: Cause, grace_seconds: float | None = None) -> None:
        """Request that a running job stops, and give it the grace; the first cause counts."""
        executor = hold.executor
        if hold.stop is not None or executor is None:
            return
        hold.stop = cause
        grace_us = self._grace_us if grace_seconds is None else round(grace_seconds * 1e6)
        hold.force_at = now() + grace_us
        # A lane's task that has a context can look for the request itself before it is interrupted.
        gentle = executor.kind == LANE and self._tasks[hold.claimed.task].takes_context
        # Interrupt at half time in any case: a signal between two jobs of a lane has no effect.
        hold.interrupt_at = now() + grace_us // 2 if executor.kind == LANE else None
        executor.stop(hold, cause, interrupt=not gentle)
        self.watch(hold)
        emit_for(hold, "job_stopping", cause=cause)

    def doom(self, executor: Executor) -> None:
        """Kill an executor as soon as the jobs that share it are done, or had the grace."""
        if not executor.doomed:
            executor.doomed = True
            others = any(hold.goes_on for hold in executor.holds.values())
            executor.kill_at = now() + (self._grace_us if others else 0)
            self._doomed[executor.number] = executor

    def buried(self, executor: Executor) -> None:
        self._doomed.pop(executor.number, None)

    def tick(self) -> None:
        """Look at every limit once."""
        moment, wall = now(), time.time_ns() // 1000
        for hold in list(self._watched.values()):
            if hold.stop is not None:
                self._insist(hold, moment)
            elif hold.begun and (cause := self._exceeded(hold, moment, wall)) is not None:
                self.stop(hold, cause)
        for executor in list(self._doomed.values()):
            waits = any(hold.goes_on for hold in executor.holds.values())
            if executor.kill_at is not None and (moment >= executor.kill_at or not waits):
                executor.kill_at = None
                executor.kill()

    def _insist(self, hold: Hold, moment: int) -> None:
        executor = hold.executor
        if executor is None or hold.stop is None:
            return
        if hold.interrupt_at is not None and moment >= hold.interrupt_at:
            hold.interrupt_at = None
            executor.stop(hold, hold.stop, interrupt=True)
        if hold.force_at is not None and moment >= hold.force_at:
            hold.force_at = None
            emit_for(hold, "job_killed", seconds=self._plan.settings.grace)
            self.doom(executor)

    def _exceeded(self, hold: Hold, moment: int, wall: int) -> Cause | None:
        limit = hold.limit
        if limit.timeout is not None and moment - hold.begun_at >= limit.timeout * 1e6:
            return TimedOut(seconds=limit.timeout)
        if limit.stall_after is not None and moment - hold.progress_at >= limit.stall_after * 1e6:
            return Stalled(seconds=limit.stall_after)
        deadline = hold.claimed.deadline_at
        if deadline is not None and wall >= deadline:
            return DeadlinePassed(at=deadline)
        return None
