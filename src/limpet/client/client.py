"""The client: enqueues jobs and follows them, over any store."""

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import timedelta
from typing import ParamSpec, TypeVar

from limpet.client.coalescer import Coalescer
from limpet.client.staging import full_queue, hand_in
from limpet.client.waiter import Waiter
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.errors import (
    JobNotFound,
    QueueDraining,
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
from limpet.payload.signature import Signature
from limpet.storage.contract.answers import Receipt
from limpet.storage.contract.bounds import batches
from limpet.storage.contract.store import CHUNK, AwaitedWithin, Store, write_at_once

P = ParamSpec("P")
T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.25
# Errors that may pass by themselves: an outage, a failover, another holder of the write lock.
_PASSING = (StoreUnreachable, StoreReadOnly, StoreBusy)


class Client:
    """One process's way to a store."""

    def __init__(
        self,
        store: Store,
        limits: Mapping[str, QueueLimit] | None = None,
        clock: Clock | None = None,
        *,
        inside_worker: bool = False,
        store_patience: timedelta = timedelta(0),
        signature_of: Callable[[str], Signature | None] = lambda task: None,
    ) -> None:
        """`inside_worker`: enqueues of several callers are never one write, because each is fenced
        by the attempt that makes it. `store_patience`: how long an enqueue is tried again while the
        store does not answer. `signature_of`: the signature of a task by its name, which turns a
        stored result back into what the task returned.
        """
        self.signature_of = signature_of
        self._retry_seconds = store_patience.total_seconds()
        self.inside_worker = inside_worker
        self.store = store
        self.clock = clock or SystemClock()
        self.ids = IdSource(self.clock)
        self._limits = dict(limits or {})
        self._caps = {
            queue: limit.cap for queue, limit in self._limits.items() if limit.cap is not None
        } or None
        self._coalescer = Coalescer(self._write)
        self._waiter = Waiter(store)

    # -- enqueueing

    def enqueue(self, job: NewJob) -> Receipt:
        """Write one job; returns when it is durable. Raises `QueueFull`."""
        write = self._alone if self.inside_worker else self._coalescer.enqueue
        receipt = write(job)
        if receipt.outcome == "new":
            return receipt
        if receipt.outcome == "full":
            retries = _FullQueueRetries(self._limits.get(job.queue))
            while receipt.outcome == "full":
                time.sleep(retries.pause_seconds(job.queue, receipt))
                receipt = write(job)
        return self._open(job, receipt)

    async def aenqueue(self, job: NewJob) -> Receipt:
        """As `enqueue`, without blocking the event loop."""
        write = self._aalone if self.inside_worker else self._coalescer.aenqueue
        receipt = await write(job)
        if receipt.outcome == "new":
            return receipt
        if receipt.outcome == "full":
            retries = _FullQueueRetries(self._limits.get(job.queue))
            while receipt.outcome == "full":
                await asyncio.sleep(retries.pause_seconds(job.queue, receipt))
                receipt = await write(job)
        return self._open(job, receipt)

    def _open(self, job: NewJob, receipt: Receipt) -> Receipt:
        if receipt.outcome == "draining":
            raise QueueDraining(job.queue)
        return receipt

    def _alone(self, job: NewJob) -> Receipt:
        return self._write([job])[0]

    async def _aalone(self, job: NewJob) -> Receipt:
        return await asyncio.to_thread(self._alone, job)

    def _write(
        self,
        jobs: Sequence[NewJob],
        *,
        all_or_none: bool = False,
        before_write: Callable[[], None] = write_at_once,
    ) -> list[Receipt]:
        return self._with_retries(
            self.store.enqueue,
            jobs,
            caps=self._caps,
            all_or_none=all_or_none,
            before_write=before_write,
        )

    def _with_retries(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        until, pause_seconds = time.monotonic() + self._retry_seconds, _FIRST_PAUSE_SECONDS
        while True:
            try:
                return verb(*args, **kwargs)
            except _PASSING:
                # The retry has the same ids, so a write whose answer was lost makes no second job.
                if time.monotonic() + pause_seconds > until:
                    raise
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2, _LONGEST_PAUSE_SECONDS)

    def enqueue_many(self, chunks: Iterable[Sequence[NewJob]]) -> Iterator[list[Receipt]]:
        """Write chunks one after the other, each wholly or not at all; stop at one that is refused.

        While a chunk is written, the next one is prepared, and the one after that is taken from
        `chunks`. An error of `chunks` is raised after the receipts of all earlier chunks.
        """
        under_way: deque[Future[list[Receipt]]] = deque()
        trouble: Exception | None = None
        made = iter(chunks)
        try:
            while True:
                try:
                    chunk = next(made, None)
                except Exception as error:
                    chunk, trouble = None, error
                if chunk is None:
                    break
                if len(under_way) == 2:
                    yield under_way.popleft().result()
                under_way.append(self._begin(chunk, after=under_way[-1] if under_way else None))
            while under_way:
                yield under_way.popleft().result()
        finally:
            wait(under_way)
        if trouble is not None:
            raise trouble

    def _begin(
        self, chunk: Sequence[NewJob], after: "Future[list[Receipt]] | None"
    ) -> "Future[list[Receipt]]":
        future: Future[list[Receipt]] = Future()

        def before_write() -> None:
            if after is not None and after.exception() is not None:
                raise _OneBeforeRefused

        def write() -> None:
            try:
                future.set_result(self._chunk(chunk, before_write))
            except BaseException as error:
                future.set_exception(error)

        if self.inside_worker:  # the fence needs the attempt, which only this thread knows
            write()
            return future
        try:
            threading.Thread(target=write, name="limpet-enqueue").start()
        except RuntimeError:  # no thread is left, or the interpreter is shutting down
            write()
        return future

    def _chunk(self, jobs: Sequence[NewJob], before_write: Callable[[], None]) -> list[Receipt]:
        self._check_caps(Counter(job.queue for job in jobs))
        retries: _FullQueueRetries | None = None
        while True:
            receipts = self._write(jobs, all_or_none=True, before_write=before_write)
            odd = [pair for pair in zip(jobs, receipts, strict=True) if pair[1].outcome != "new"]
            for job, receipt in odd:
                self._open(job, receipt)
            over = [pair for pair in odd if pair[1].outcome == "full"]
            if not over:
                return receipts
            # Only the receipt of the queue that is full names how many jobs wait.
            job, receipt = max(over, key=lambda pair: pair[1].waiting)
            retries = retries or _FullQueueRetries(self._limits.get(job.queue))
            time.sleep(retries.pause_seconds(job.queue, receipt))

    def _check_caps(self, wanted: Mapping[str, int]) -> None:
        for queue, count in wanted.items():
            cap = (self._caps or {}).get(queue)
            if cap is not None and count > cap:
                raise QueueFull(queue, 0, cap, requested=count)

    def enqueue_whole(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Write jobs in one step, all or none, however many; parents come first.

        Jobs that do not fit into one write are staged and committed. Then the receipts have no
        state, and caps are checked before the staging and again by the commit.
        """
        if len(list(batches(jobs))) <= 1:
            return self._chunk(jobs, write_at_once)
        wanted = Counter(job.queue for job in jobs)
        self._check_caps(wanted)
        retries: dict[str, _FullQueueRetries] = {}
        while not self._hand_in(jobs, wanted, retries):
            pass
        return [Receipt(job.id, "new", None) for job in jobs]

    def _hand_in(
        self,
        jobs: Sequence[NewJob],
        wanted: Mapping[str, int],
        retries: "dict[str, _FullQueueRetries]",
    ) -> bool:
        """Stage and commit. Where a queue is full: write nothing, pause, and return False."""
        outside = not self.inside_worker
        over = full_queue(self.store, wanted, self._caps or {}, outside)
        if over is None:
            # Inside a worker, its supervisor writes out what was committed.
            try:
                hand_in(self.store, jobs, self._with_retries, caps=self._caps, writes_out=outside)
            except QueueFull as full:  # another client filled the queue meanwhile
                over = full.queue, full.waiting
            else:
                return True
        queue, waiting = over
        tries = retries.setdefault(queue, _FullQueueRetries(self._limits.get(queue)))
        time.sleep(tries.pause_seconds(queue, Receipt("", "full", None, waiting), wanted[queue]))
        return False

    def enqueue_within(self, connection: object, job: NewJob) -> Receipt:
        """Write one job in the caller's own transaction; a full queue refuses at once."""
        return self._taken(job, self.store.enqueue_within(connection, [job], caps=self._caps)[0])

    async def aenqueue_within(self, connection: object, job: NewJob) -> Receipt:
        """As `enqueue_within`, on a connection with async calls."""
        if not isinstance(self.store, AwaitedWithin):
            raise TransactionRefused(
                "within= works in the thread of the connection's transaction; use enqueue(), which "
                "only writes to that transaction and returns at once."
            )
        receipts = await self.store.aenqueue_within(connection, [job], caps=self._caps)
        return self._taken(job, receipts[0])

    def _taken(self, job: NewJob, receipt: Receipt) -> Receipt:
        if receipt.outcome == "full":
            raise QueueFull(job.queue, receipt.waiting, (self._caps or {})[job.queue])
        return self._open(job, receipt)

    # -- following

    def job(self, job: str) -> Job:
        """One job as it is now; raises `JobNotFound`."""
        found = self.store.job(job)
        if found is None:
            raise JobNotFound(job)
        return found

    def children_of(self, job: str) -> Iterator[Job]:
        """The children of a job, oldest first."""
        cursor: str | None = None
        while True:
            page = self.store.children(job, cursor, CHUNK)
            yield from page.jobs
            cursor = page.cursor
            if cursor is None:
                return

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
            if found.state in FINAL:  # else a new round was opened just now
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
        """Cancel a waiting job, or request that the holder of a running one stops it."""
        return self.store.cancel(job, reason)

    def retry(self, job: str) -> State:
        """Open a new round of a finished job; a repeated call opens only one."""
        self.store.retry(job, self.job(job).round)
        return self.job(job).state

    def close(self) -> None:
        self.store.close()


class _OneBeforeRefused(Exception):
    """A chunk was not written because the one before it was not."""


class _FullQueueRetries:
    """Pauses between the tries of an enqueue while its queue is full."""

    def __init__(self, limit: QueueLimit | None) -> None:
        self._limit = limit
        self._until = time.monotonic() + (limit.patience.total_seconds() if limit else 0)
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    def pause_seconds(self, queue: str, receipt: Receipt, wanted: int = 1) -> float:
        """Seconds to wait before the next try; raises `QueueFull` where there is no next try."""
        limit = self._limit
        if limit is None or limit.when_full == "refuse" or time.monotonic() > self._until:
            cap = limit.cap or 0 if limit else 0
            raise QueueFull(queue, receipt.waiting, cap, wanted)
        self._pause_seconds = min(self._pause_seconds * 1.5, _LONGEST_PAUSE_SECONDS)
        return self._pause_seconds
