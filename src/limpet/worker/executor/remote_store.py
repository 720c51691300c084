"""The store as an executor sees it: through the supervisor, under the token of the attempt.

A late holder can thus not enqueue either. Only what happens inside the user's own transaction goes
to the store directly, because nobody else has that connection.
"""

import _thread
import os
import queue
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec

from limpet.domain.errors import InvalidOption, StoreUnavailable, TransactionRefused
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.payload import context
from limpet.storage.contract import answers, store
from limpet.storage.registry import open_store
from limpet.worker.wire.frames import HEADER_BYTES, header, size_after
from limpet.worker.wire.page import Page as LeasePage
from limpet.worker.wire.request_answers import LARGEST_ANSWER_BYTES, read_answer
from limpet.worker.wire.task_requests import (
    REQUESTS,
    CommitRequest,
    EnqueueRequest,
    Request,
    RequestInvalid,
    StageRequest,
    request_bytes,
)

_Box: TypeAlias = "queue.SimpleQueue[bytes | BaseException]"


class RemoteStore:
    """The verbs that a task may use, each one request to the supervisor."""

    def __init__(
        self,
        sock: socket.socket,
        url: str,
        session: str,
        page: LeasePage,
    ) -> None:
        self._sock = sock
        self._url = url
        self._session = session
        self._page = page
        self._serving = threading.Lock()
        self._is_served = False
        self._asked: queue.SimpleQueue[tuple[bytes, _Box]] = queue.SimpleQueue()
        self._owner = os.getpid()
        self._direct: store.Store | None = None

    def _ask(self, request: Request) -> Any:
        if os.getpid() != self._owner:
            raise StoreUnavailable(
                "a process that a task has forked cannot use the app of its parent; make its own "
                "App there, or hand in the job in the task itself."
            )
        if self._page.over:
            raise StoreUnavailable("the lease of this worker is over; the attempt must end.")
        try:
            body = request_bytes(request)
        except RequestInvalid as error:
            raise InvalidOption(str(error)) from None
        # Not a future: its lock is Python code, which an exception can leave half-way.
        box: _Box = queue.SimpleQueue()
        if not self._is_served:
            # One step: a `Thread` that an exception cuts short in `start` would never run. Cut
            # short after it, a second one starts, and waits for ever behind the first.
            _thread.start_new_thread(self._serve, ())
            self._is_served = True
        self._asked.put((body, box))
        answer = box.get()
        if isinstance(answer, BaseException):
            raise answer
        return read_answer(type(request), answer)

    def _serve(self) -> None:
        """Ask and read in a thread of its own: only the main thread's code can be cut short, by a
        signal handler that raises, and half an answer read would be the next one's.
        """
        with self._serving:
            while True:
                body, box = self._asked.get()
                try:
                    self._sock.sendall(header(len(body)) + body)
                    box.put(self._read())
                except BaseException as error:
                    box.put(error)

    def _read(self) -> bytes:
        try:
            size = size_after(self._exactly(HEADER_BYTES))
        except msgspec.DecodeError:
            size = LARGEST_ANSWER_BYTES + 1
        if size > LARGEST_ANSWER_BYTES:
            # Nobody knows where the next answer begins.
            self._sock.shutdown(socket.SHUT_RDWR)
            raise StoreUnavailable("something else was written between this task and its worker.")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._sock.recv(min(size, 1 << 20))
            if not part:
                raise StoreUnavailable("the supervisor of this worker is gone.")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    # -- hand in

    def enqueue(
        self,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
        all_or_none: bool = False,
        fence: Lease | None = None,
        turn: Callable[[], None] = store.at_once,
    ) -> list[answers.Receipt]:
        turn()
        own = context.current()
        if own is not None and fence is None:
            fence = Lease(own.job.id, self._session, own.token)
        receipts: list[answers.Receipt] = self._ask(
            EnqueueRequest(list(jobs), dict(caps) if caps else None, all_or_none, fence)
        )
        return receipts

    def enqueue_within(
        self,
        connection: object,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
    ) -> list[answers.Receipt]:
        return self._own_store().enqueue_within(connection, jobs, caps=caps)

    async def aenqueue_within(
        self,
        connection: object,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
    ) -> list[answers.Receipt]:
        own = self._own_store()
        if not isinstance(own, store.AwaitedWithin):
            raise TransactionRefused(
                "within= works in the thread of the connection's transaction; use enqueue()."
            )
        return await own.aenqueue_within(connection, jobs, caps=caps)

    # -- flows

    def stage(self, flow: str, place: int, jobs: Sequence[NewJob]) -> None:
        """Only in an attempt; the supervisor sees whose it is."""
        self._ask(StageRequest(flow, place, list(jobs), self._attempt()))

    def commit(
        self,
        flow: str,
        chunks: int,
        fence: Lease | None = None,
        *,
        caps: Mapping[str, int] | None = None,
    ) -> bool:
        fence = fence or self._attempt()
        return bool(self._ask(CommitRequest(flow, chunks, fence, dict(caps) if caps else None)))

    def _attempt(self) -> Lease:
        own = context.current()
        if own is None:
            raise StoreUnavailable(
                f"in a worker only a job that runs can hand in a flow of more than {store.CHUNK:,} "
                f"jobs."
            )
        return Lease(own.job.id, self._session, own.token)

    # -- the store itself

    def listen(self, topic: store.Topic) -> store.Bell:
        return self._own_store().listen(topic)

    def _own_store(self) -> store.Store:
        if self._direct is None:
            self._direct = open_store(self._url)
        return self._direct

    def close(self) -> None:
        if self._direct is not None:
            self._direct.close()

    def __getattr__(self, verb: str) -> Any:
        """Every other verb is forwarded as it is."""
        kind = REQUESTS.get(verb)
        if kind is None:
            raise AttributeError(f"a task cannot use {verb!r}: only the supervisor holds jobs.")
        return partial(self._forward, kind)

    def _forward(self, kind: type[Request], *args: Any, **kwargs: Any) -> Any:
        return self._ask(kind(*args, **kwargs))
