"""Finds what blocks the event loop of an executor that does not answer, and logs it."""

import asyncio

from limpet import log
from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.wire.page import now

_PING_MICROSECONDS = 1_000_000
_ANSWER_SECONDS = 0.2


class BlockedLoop:
    """Pings loop executors that have jobs."""

    def look(self, executor: Executor, moment: int) -> None:
        """Ping the executor, or request what blocks it; each block is logged once."""
        if executor.received_at >= executor.pinged_at:
            executor.blamed = executor.blame_answered = False
            if moment - executor.pinged_at > _PING_MICROSECONDS:
                executor.ping()
        elif moment - executor.pinged_at > _PING_MICROSECONDS and not executor.blamed:
            executor.blamed = True
            executor.request_blame()
            loop = asyncio.get_running_loop()
            loop.call_later(_ANSWER_SECONDS, self._no_answer, executor)

    def answered(self, executor: Executor, job: str | None, where: str) -> None:
        """The executor has reported what blocks its loop."""
        hold = executor.holds.get(job) if job is not None else None
        task = hold.claimed.task if hold is not None else None
        executor.blame_answered = True
        blame = f"{task} is at {where}" if task is not None else f"it is at {where}"
        self._emit(executor, blame, job=job, task=task)

    def _no_answer(self, executor: Executor) -> None:
        """Log a block about which the executor reported nothing: code outside Python holds it."""
        if executor.blamed and not executor.blame_answered:
            running = {hold.claimed.task for hold in executor.holds.values() if hold.begun}
            names = ", ".join(sorted(running)) or "nothing known"
            self._emit(executor, f"code outside Python holds it; running: {names}")

    @staticmethod
    def _emit(executor: Executor, blame: str, **facts: str | None) -> None:
        seconds = (now() - executor.pinged_at) / 1e6
        log.emit("loop_blocked", seconds=seconds, blame=blame, **facts)
