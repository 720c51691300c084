"""The client: enqueues jobs and follows them, over any store."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

from limpet.client.coalescer import Coalescer
from limpet.client.waiter import Waiter
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.errors import JobNotFound, LimpetError, QueueFull, ResultTimeout
from limpet.domain.ids import IdSource
from limpet.domain.job import Job, NewJob
from limpet.domain.queue import QueueLimit
from limpet.domain.state import State
from limpet.storage.answers import Receipt
from limpet.storage.base import CHUNK, Store

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.25


class Client:
    """One process's way to a store."""

    def __init__(
        self,
        store: Store,
        limits: Mapping[str, QueueLimit] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.store = store
        self.clock = clock or SystemClock()
        self.ids = IdSource(self.clock)
        self._limits = dict(limits or {})
        self._caps = {queue: limit.cap for queue, limit in self._limits.items()} or None
        self._coalescer = Coalescer(lambda jobs: self.store.enqueue(jobs, caps=self._caps))
        self._waiter = Waiter(store)

    # -- handing in

    def enqueue(self, job: NewJob) -> Receipt:
        """Write one job; returns when it is durable. Raises `QueueFull`."""
        patience = _Patience(self._limits.get(job.queue))
        while (receipt := self._coalescer.enqueue(job)).outcome == "full":
            time.sleep(patience.pause(job.queue, receipt))
        return receipt

    async def aenqueue(self, job: NewJob) -> Receipt:
        """As `enqueue`, without blocking the event loop."""
        patience = _Patience(self._limits.get(job.queue))
        while True:
            receipt = await self._coalescer.aenqueue(job)
            if receipt.outcome != "full":
                return receipt
            await asyncio.sleep(patience.pause(job.queue, receipt))

    def enqueue_many(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Write jobs in chunks of 1,000, each wholly or not at all.

        Where a chunk is refused, `accepted` of the error lists the receipts of those before it.
        """
        receipts: list[Receipt] = []
        for start in range(0, len(jobs), CHUNK):
            try:
                receipts += self._chunk(jobs[start : start + CHUNK])
            except LimpetError as error:
                error.accepted = tuple(receipts)
                raise
        return receipts

    def _chunk(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        patience: _Patience | None = None
        while True:
            receipts = self.store.enqueue(jobs, caps=self._caps, all_or_none=True)
            full = next((each for each in receipts if each.outcome == "full"), None)
            if full is None:
                return receipts
            queue = next(
                job.queue for job, each in zip(jobs, receipts, strict=True) if each.waiting
            )
            waiting = next(each for each in receipts if each.waiting)
            patience = patience or _Patience(self._limits.get(queue))
            time.sleep(patience.pause(queue, waiting))

    # -- following

    def job(self, job: str) -> Job:
        """One job as it is now; raises `JobNotFound`."""
        found = self.store.job(job)
        if found is None:
            raise JobNotFound(job)
        return found

    def wait(self, job: str, timeout: timedelta | None) -> Job:
        """The job once it is in a final state; raises `ResultTimeout` when the time is up."""
        watch = self._waiter.watch(job)
        try:
            watch.result(None if timeout is None else timeout.total_seconds())
        except TimeoutError:
            raise self._too_late(job, timeout) from None
        finally:
            self._waiter.forget(job, watch)
        return self.job(job)

    async def await_(self, job: str, timeout: timedelta | None) -> Job:
        """As `wait`, without blocking the event loop."""
        watch = self._waiter.watch(job)
        try:
            seconds = None if timeout is None else timeout.total_seconds()
            await asyncio.wait_for(asyncio.wrap_future(watch), seconds)
        except TimeoutError:
            raise await asyncio.to_thread(self._too_late, job, timeout) from None
        finally:
            self._waiter.forget(job, watch)
        return await asyncio.to_thread(self.job, job)

    def _too_late(self, job: str, timeout: timedelta | None) -> ResultTimeout:
        state = self.store.states([job]).get(job, "gone")
        return ResultTimeout(
            f"job {job} is {state} and not finished after {timeout}; it goes on. Wait longer, or "
            f"look at `limpet job show {job}`."
        )

    def cancel(self, job: str, reason: str) -> State:
        """Cancel the job, or ask its holder to."""
        return self.store.cancel(job, reason)

    def retry(self, job: str) -> State:
        """Open a new round of a finished job; said twice, it is done once."""
        self.store.retry(job, self.job(job).round)
        return self.job(job).state

    def close(self) -> None:
        self.store.close()


class _Patience:
    """How long to go on trying while a queue is full."""

    def __init__(self, limit: QueueLimit | None) -> None:
        self._limit = limit
        self._until = time.monotonic() + (limit.patience.total_seconds() if limit else 0)
        self._pause = _FIRST_PAUSE

    def pause(self, queue: str, receipt: Receipt) -> float:
        """Seconds to wait before the next try, or `QueueFull`."""
        limit = self._limit
        if limit is None or limit.when_full == "refuse" or time.monotonic() > self._until:
            raise QueueFull(queue, receipt.waiting, limit.cap if limit else 0)
        self._pause = min(self._pause * 1.5, _LONGEST_PAUSE)
        return self._pause
