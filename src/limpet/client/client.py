"""The client: enqueues jobs and follows them, over any store."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import timedelta

from limpet.client.coalescer import Coalescer
from limpet.client.waiter import Waiter
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.errors import (
    JobNotFound,
    QueueFull,
    ResultTimeout,
    StoreBusy,
    StoreReadOnly,
    StoreUnreachable,
    TransactionRefused,
)
from limpet.domain.ids import IdSource
from limpet.domain.job import Job, NewJob
from limpet.domain.queue import QueueLimit
from limpet.domain.state import FINAL, State
from limpet.storage.answers import Receipt
from limpet.storage.base import AwaitedWithin, Store

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.25
# What may pass by itself: an outage, a failover, somebody who holds the lock.
_PASSING = (StoreUnreachable, StoreReadOnly, StoreBusy)


class Client:
    """One process's way to a store."""

    def __init__(
        self,
        store: Store,
        limits: Mapping[str, QueueLimit] | None = None,
        clock: Clock | None = None,
        *,
        shares_writes: bool = True,
        store_patience: timedelta = timedelta(0),
    ) -> None:
        """`shares_writes`: enqueues of several callers may be one write. Not so in an executor,
        where each is fenced by the attempt that it is made in. `store_patience`: how long an
        enqueue is said again where the store does not answer.
        """
        self._store_patience = store_patience.total_seconds()
        self._shares_writes = shares_writes
        self.store = store
        self.clock = clock or SystemClock()
        self.ids = IdSource(self.clock)
        self._limits = dict(limits or {})
        self._caps = {queue: limit.cap for queue, limit in self._limits.items()} or None
        self._coalescer = Coalescer(self._write)
        self._waiter = Waiter(store)

    # -- handing in

    def enqueue(self, job: NewJob) -> Receipt:
        """Write one job; returns when it is durable. Raises `QueueFull`."""
        write = self._coalescer.enqueue if self._shares_writes else self._alone
        receipt = write(job)
        if receipt.outcome == "full":
            patience = _Patience(self._limits.get(job.queue))
            while receipt.outcome == "full":
                time.sleep(patience.pause(job.queue, receipt))
                receipt = write(job)
        return receipt

    async def aenqueue(self, job: NewJob) -> Receipt:
        """As `enqueue`, without blocking the event loop."""
        patience = _Patience(self._limits.get(job.queue))
        while True:
            if self._shares_writes:
                receipt = await self._coalescer.aenqueue(job)
            else:
                receipt = await asyncio.to_thread(self._alone, job)
            if receipt.outcome != "full":
                return receipt
            await asyncio.sleep(patience.pause(job.queue, receipt))

    def _alone(self, job: NewJob) -> Receipt:
        return self._write([job])[0]

    def _write(self, jobs: Sequence[NewJob], *, all_or_none: bool = False) -> list[Receipt]:
        until, pause = time.monotonic() + self._store_patience, _FIRST_PAUSE
        while True:
            try:
                return self.store.enqueue(jobs, caps=self._caps, all_or_none=all_or_none)
            except _PASSING:
                # The ids stay the same: what was written although nobody heard of it is one job.
                if time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def enqueue_many(self, chunks: Iterable[Sequence[NewJob]]) -> Iterator[list[Receipt]]:
        """Write chunks one after the other, each wholly or not at all, up to one that is refused.

        While one is written, `chunks` is asked for the next; what it raises comes after the
        receipts of all that it gave.
        """
        under_way: Future[list[Receipt]] | None = None
        try:
            for chunk in chunks:
                receipts = under_way.result() if under_way else []
                under_way = self._begin(chunk)
                yield receipts
        except Exception:
            if under_way:
                yield under_way.result()
            raise
        finally:
            if under_way:
                wait([under_way])
        if under_way:
            yield under_way.result()

    def _begin(self, chunk: Sequence[NewJob]) -> "Future[list[Receipt]]":
        future: Future[list[Receipt]] = Future()

        def write() -> None:
            try:
                future.set_result(self._chunk(chunk))
            except BaseException as error:
                future.set_exception(error)

        if not self._shares_writes:  # fenced by the attempt, which is known in its own thread
            write()
            return future
        try:
            threading.Thread(target=write, name="limpet-enqueue").start()
        except RuntimeError:  # no thread to be had, or at the very end
            write()
        return future

    def _chunk(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        asked = Counter(job.queue for job in jobs)
        for queue, count in asked.items():
            limit = self._limits.get(queue)
            if limit is not None and count > limit.cap:
                raise QueueFull(queue, 0, limit.cap, asked=count)
        patience: _Patience | None = None
        while True:
            receipts = self._write(jobs, all_or_none=True)
            over = [each for each in zip(jobs, receipts, strict=True) if each[1].outcome == "full"]
            if not over:
                return receipts
            # The one that names a number is the one for which there was no room.
            job, receipt = max(over, key=lambda each: each[1].waiting)
            patience = patience or _Patience(self._limits.get(job.queue))
            time.sleep(patience.pause(job.queue, receipt))

    def enqueue_within(self, connection: object, job: NewJob) -> Receipt:
        """Write one job in the caller's own transaction; a full queue refuses at once."""
        return self._taken(job, self.store.enqueue_within(connection, [job], caps=self._caps)[0])

    async def aenqueue_within(self, connection: object, job: NewJob) -> Receipt:
        """As `enqueue_within`, on a connection whose calls are awaited."""
        if not isinstance(self.store, AwaitedWithin):
            raise TransactionRefused(
                "within= works in the thread of the connection's transaction; use enqueue(), which "
                "only writes to that transaction and returns at once."
            )
        receipts = await self.store.aenqueue_within(connection, [job], caps=self._caps)
        return self._taken(job, receipts[0])

    def _taken(self, job: NewJob, receipt: Receipt) -> Receipt:
        if receipt.outcome == "full":
            raise QueueFull(job.queue, receipt.waiting, self._limits[job.queue].cap)
        return receipt

    # -- following

    def job(self, job: str) -> Job:
        """One job as it is now; raises `JobNotFound`."""
        found = self.store.job(job)
        if found is None:
            raise JobNotFound(job)
        return found

    def wait(self, job: str, timeout: timedelta | None) -> Job:
        """The job once it is in a final state; raises `ResultTimeout` when the time is up."""
        until = None if timeout is None else time.monotonic() + timeout.total_seconds()
        while True:
            watch = self._waiter.watch(job)
            try:
                self._waiter.look(job)
                watch.result(None if until is None else max(until - time.monotonic(), 0))
            except FutureTimeout:
                return self._at_the_end(job, timeout)
            finally:
                self._waiter.forget(job, watch)
            found = self.job(job)
            if found.state in FINAL:  # else somebody has just begun a new round
                return found

    async def await_(self, job: str, timeout: timedelta | None) -> Job:
        """As `wait`, without blocking the event loop."""
        until = None if timeout is None else time.monotonic() + timeout.total_seconds()
        while True:
            watch = self._waiter.watch(job)
            try:
                await asyncio.to_thread(self._waiter.look, job)
                left = None if until is None else max(until - time.monotonic(), 0)
                await asyncio.wait_for(asyncio.wrap_future(watch), left)
            except TimeoutError:
                return await asyncio.to_thread(self._at_the_end, job, timeout)
            finally:
                self._waiter.forget(job, watch)
            found = await asyncio.to_thread(self.job, job)
            if found.state in FINAL:
                return found

    def _at_the_end(self, job: str, timeout: timedelta | None) -> Job:
        found = self.job(job)
        if found.state in FINAL:
            return found
        raise ResultTimeout(
            f"job {job} is {found.state} and not finished after {timeout}; it goes on. Wait "
            f"longer, or look at `limpet job show {job}`."
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
