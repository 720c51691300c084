"""The store as an executor sees it: through the supervisor, under the token of the attempt.

So an attempt that has lost its job cannot enqueue either. Only calls with `within=` go to the store
directly, because only the user's code has the connection of its transaction.
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
from limpet.storage.contract.bell import Bell, Topic
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
    """The verbs that a task may use; each call is one request to the supervisor."""

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
        self._requests: queue.SimpleQueue[tuple[bytes, _Box]] = queue.SimpleQueue()
        self._owner = os.getpid()
        self._direct: store.Store | None = None

    def _request(self, request: Request) -> Any:
        if os.getpid() != self._owner:
            raise StoreUnavailable(
                "a process that a task has forked cannot use the app of its parent; make a new App "
                "there, or enqueue the job in the task itself."
            )
        if self._page.over:
            raise StoreUnavailable("the lease of this worker is over; the attempt must end.")
        try:
            body = request_bytes(request)
        except RequestInvalid as error:
            raise InvalidOption(str(error)) from None
        # Not a future: its lock is Python code, in which an exception can leave it half-taken.
        box: _Box = queue.SimpleQueue()
        if not self._is_served:
            # One step: an exception inside `Thread.start` could leave a thread that never runs. An
            # exception after this call starts a second thread, which waits behind the first for
            # ever.
            _thread.start_new_thread(self._serve, ())
            self._is_served = True
        self._requests.put((body, box))
        answer = box.get()
        if isinstance(answer, BaseException):
            raise answer
        return read_answer(type(request), answer)

    def _serve(self) -> None:
        """Send requests and read answers in a thread of its own.

        A signal handler that raises can interrupt only the main thread; half an answer read there
        would be taken for the beginning of the next one.
        """
        with self._serving:
            while True:
                body, box = self._requests.get()
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
            # Where the next answer begins is unknown from here on.
            self._sock.shutdown(socket.SHUT_RDWR)
            raise StoreUnavailable("the connection between this task and its worker is corrupt.")
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
        before_write: Callable[[], None] = store.write_at_once,
    ) -> list[answers.Receipt]:
        before_write()
        own = context.current()
        if own is not None and fence is None:
            fence = Lease(own.job.id, self._session, own.token)
        receipts: list[answers.Receipt] = self._request(
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
        """Stage jobs of a flow; only in an attempt, whose lease the supervisor checks."""
        self._request(StageRequest(flow, place, list(jobs), self._attempt()))

    def commit(
        self,
        flow: str,
        chunks: int,
        fence: Lease | None = None,
        *,
        caps: Mapping[str, int] | None = None,
    ) -> bool:
        fence = fence or self._attempt()
        return bool(self._request(CommitRequest(flow, chunks, fence, dict(caps) if caps else None)))

    def _attempt(self) -> Lease:
        own = context.current()
        if own is None:
            raise StoreUnavailable(
                f"in a worker only a job that runs can hand in a flow of more than {store.CHUNK:,} "
                f"jobs."
            )
        return Lease(own.job.id, self._session, own.token)

    # -- the store itself

    def listen(self, topic: Topic) -> Bell:
        return self._own_store().listen(topic)

    def _own_store(self) -> store.Store:
        if self._direct is None:
            self._direct = open_store(self._url)
        return self._direct

    def close(self) -> None:
        if self._direct is not None:
            self._direct.close()

    def __getattr__(self, verb: str) -> Any:
        """Every other verb, forwarded unchanged."""
        kind = REQUESTS.get(verb)
        if kind is None:
            raise AttributeError(f"a task cannot use {verb!r}: only the supervisor holds jobs.")
        return partial(self._forward, kind)

    def _forward(self, kind: type[Request], *args: Any, **kwargs: Any) -> Any:
        return self._request(kind(*args, **kwargs))
