"""Concurrent enqueues of a process, gathered into shared writes.

A lone caller writes by itself, without a detour. Whoever comes while a write is under way joins
the next one, which a thread of the coalescer makes for all who wait, threads and coroutines alike.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future

from limpet.domain.job import NewJob
from limpet.storage.base import CHUNK, Receipt


class Coalescer:
    """Gathers single jobs for `write`, which takes many."""

    def __init__(self, write: Callable[[list[NewJob]], list[Receipt]]) -> None:
        self._write = write
        self._start_anew()

    def _start_anew(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._busy = False
        self._waiting: list[tuple[NewJob, Future[Receipt]]] = []

    def enqueue(self, job: NewJob) -> Receipt:
        """Write one job, alone or with others, and return when it is durable."""
        joined = self._join(job, alone_if_idle=True)
        if joined is not None:
            return joined.result()
        try:
            return self._write([job])[0]
        finally:
            self._hand_over()

    def submit(self, job: NewJob) -> "Future[Receipt]":
        """As `enqueue`, without waiting: for coroutines."""
        joined = self._join(job, alone_if_idle=False)
        assert joined is not None
        return joined

    def _join(self, job: NewJob, *, alone_if_idle: bool) -> "Future[Receipt] | None":
        if self._process != os.getpid():
            self._start_anew()  # the parent's write, and those who wait for it, are the parent's
        with self._lock:
            if not self._busy and alone_if_idle:
                self._busy = True
                return None
            future: Future[Receipt] = Future()
            self._waiting.append((job, future))
            start = not self._busy
            self._busy = True
        if start:
            self._start()
        return future

    def _hand_over(self) -> None:
        with self._lock:
            self._busy = bool(self._waiting)
        if self._busy:
            self._start()

    def _start(self) -> None:
        threading.Thread(target=self._flush, name="limpet-coalescer", daemon=True).start()

    def _flush(self) -> None:
        while True:
            with self._lock:
                batch, self._waiting = self._waiting[:CHUNK], self._waiting[CHUNK:]
                if not batch:
                    self._busy = False
                    return
            try:
                receipts = self._write([job for job, _ in batch])
            except BaseException as error:
                for _, future in batch:
                    future.set_exception(error)
            else:
                for (_, future), receipt in zip(batch, receipts, strict=True):
                    future.set_result(receipt)
