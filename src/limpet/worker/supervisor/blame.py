"""Who blocks the event loop: asks an executor that does not answer, and says it in the log."""

import asyncio

from limpet import log
from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.wire.page import now

_PING_MICROSECONDS = 1_000_000
_ANSWER_SECONDS = 0.2


class Blame:
    """Pings loop executors that have jobs."""

    def look(self, executor: Executor, moment: int) -> None:
        """Ping, or ask what keeps it from answering; each block is told once."""
        if executor.heard_at >= executor.pinged_at:
            executor.blamed = executor.told_blame = False
            if moment - executor.pinged_at > _PING_MICROSECONDS:
                executor.ping()
        elif moment - executor.pinged_at > _PING_MICROSECONDS and not executor.blamed:
            executor.blamed = True
            executor.ask_what_blocks()
            loop = asyncio.get_running_loop()
            loop.call_later(_ANSWER_SECONDS, self._anyone, executor)

    def heard(self, executor: Executor, job: str | None, where: str) -> None:
        """The executor answered from within what blocks it."""
        hold = executor.holds.get(job) if job is not None else None
        task = hold.claimed.task if hold is not None else None
        executor.told_blame = True
        blame = f"{task} is at {where}" if task is not None else f"it is at {where}"
        self._say(executor, blame, job=job, task=task)

    def _anyone(self, executor: Executor) -> None:
        """It did not answer: something outside Python holds it."""
        if executor.blamed and not executor.told_blame:
            running = {hold.claimed.task for hold in executor.holds.values() if hold.begun}
            names = ", ".join(sorted(running)) or "nothing known"
            self._say(executor, f"code outside Python holds it; running: {names}")

    @staticmethod
    def _say(executor: Executor, blame: str, **facts: str | None) -> None:
        seconds = (now() - executor.pinged_at) / 1e6
        log.emit("loop_blocked", seconds=seconds, blame=blame, **facts)
