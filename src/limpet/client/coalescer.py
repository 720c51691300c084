"""Concurrent enqueues of a process, gathered into shared writes.

A lone caller writes in its own thread. A caller that comes while a write is under way joins the
next write, which a thread of the coalescer makes for all callers that wait, threads and coroutines.
Coroutines of one loop are woken together, because waking a loop costs more than writing a row.
"""

import asyncio
import copy
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from limpet.domain.fork import anew_in_child
from limpet.domain.job import NewJob
from limpet.storage.contract.answers import Receipt
from limpet.storage.contract.store import CHUNK

Answer = Receipt | BaseException


class _Waiting(NamedTuple):
    job: NewJob
    future: "Future[Receipt] | asyncio.Future[Receipt]"


class Coalescer:
    """Gathers single jobs for `write`, which takes many."""

    def __init__(self, write: Callable[[list[NewJob]], list[Receipt]]) -> None:
        self._write = write
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """Forget the write under way and its callers: in a forked child they are the parent's."""
        self._wanted = threading.Condition()
        self._busy = False
        self._waiting: list[_Waiting] = []
        self._thread: threading.Thread | None = None

    def enqueue(self, job: NewJob) -> Receipt:
        """Write one job, alone or with others, and return when it is durable."""
        with self._wanted:
            alone = not self._busy and not self._waiting
            if alone:
                self._busy = True
            else:
                future: Future[Receipt] = Future()
                self._join(_Waiting(job, future))
        if not alone:
            return future.result()
        try:
            return self._write([job])[0]
        finally:
            with self._wanted:
                self._busy = False
                if self._waiting:
                    self._wake()

    async def aenqueue(self, job: NewJob) -> Receipt:
        """As `enqueue`, without blocking the event loop."""
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        with self._wanted:
            self._join(_Waiting(job, future))
        return await future

    def _join(self, waiting: _Waiting) -> None:
        """Add a job to the next shared write."""
        if not self._busy:
            self._wake()
        self._waiting.append(waiting)

    def _wake(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="limpet-enqueue", daemon=True)
            thread.start()
            self._thread = thread
        self._wanted.notify()

    def _serve(self) -> None:
        while True:
            with self._wanted:
                while self._busy or not self._waiting:
                    self._wanted.wait()
                self._busy = True
                batch, self._waiting = self._waiting[:CHUNK], self._waiting[CHUNK:]
            # A coroutine that was cancelled before its write began has enqueued nothing.
            batch = [waiting for waiting in batch if not waiting.future.cancelled()]
            answers: list[Answer]
            try:
                answers = list(self._write([waiting.job for waiting in batch])) if batch else []
            except BaseException as error:
                answers = [copy.copy(error) for _ in batch]
            with self._wanted:
                self._busy = False
            _distribute(batch, answers)


def _distribute(batch: list[_Waiting], answers: list[Answer]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Receipt], Answer]]] = {}
    for waiting, answer in zip(batch, answers, strict=True):
        if isinstance(waiting.future, Future):
            _resolve(waiting.future, answer)
        else:
            loops.setdefault(waiting.future.get_loop(), []).append((waiting.future, answer))
    for loop, answered in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve_all, answered)
        except RuntimeError:
            continue  # the loop was closed while its coroutine waited: nobody needs the answer


def _resolve_all(answered: "list[tuple[asyncio.Future[Receipt], Answer]]") -> None:
    for future, answer in answered:
        if not future.done():  # a coroutine that was cancelled no longer waits for the answer
            _resolve(future, answer)


def _resolve(future: "Future[Receipt] | asyncio.Future[Receipt]", answer: Answer) -> None:
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
