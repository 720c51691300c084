"""Serves the requests of tasks: the jobs that they enqueue and look up go through the supervisor.

A job is not trusted. The size of a request is checked before it is read, it is decoded before
anything acts on it, and it is served only for an attempt that the executor has. A request that does
not pass ends its executor. An error of the supervisor's own while it serves a verb is raised in the
task, and charged to nobody.
"""

import asyncio
import socket
from typing import Any, Final, Protocol

import msgspec

from limpet.domain.errors import InvalidOption, LeaseLost, LimpetError, StoreUnavailable
from limpet.domain.lease import Lease
from limpet.maintenance.cron import check_timing
from limpet.worker.supervisor.heartbeat import Heartbeat
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.wire.bounds import NotUnderstood
from limpet.worker.wire.frames import HEADER_BYTES, header, size_after
from limpet.worker.wire.request_answers import answer_bytes, refusal_bytes
from limpet.worker.wire.request_bounds import LARGEST_REQUEST_BYTES
from limpet.worker.wire.task_requests import (
    PutScheduleRequest,
    Request,
    RequestInvalid,
    StageRequest,
    read_request,
)

# Requests above this size are read one at a time, so that they do not fill the memory together.
_LARGE_BYTES: Final = 1 << 20
# How long one large request is read at a time. An executor sends slowly if another task keeps its
# interpreter busy; then the request waits for its next time, behind the others.
_LONGEST_READ_SECONDS: Final = 30.0
# How many bytes all large requests that wait may have read so far, taken together.
_MOST_KEPT_BYTES: Final = 2 * LARGEST_REQUEST_BYTES


class Requester(Protocol):
    """An executor, as far as the server needs it."""

    @property
    def request_socket(self) -> socket.socket: ...

    def not_understood(self, error: Exception) -> None: ...


class RequestServer:
    """Answers the requests of executors: of each one at a time and in order, of many at once."""

    def __init__(self, scope: SessionScope, heart: Heartbeat) -> None:
        self._session = scope.session
        self._line = scope.line
        self._page = scope.page
        self._ledger = scope.ledger
        self._heart = heart
        self._large = asyncio.Lock()
        self._kept_bytes = 0
        self._serving: set[asyncio.Task[None]] = set()

    def open(self, executor: Requester) -> None:
        """Begin to serve an executor."""
        task = asyncio.get_running_loop().create_task(self._serve(executor))
        self._serving.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Raise an error of the server's own, so that the event loop's handler ends the session.

        Else the tasks of this executor would wait for ever for their answers.
        """
        self._serving.discard(task)
        if not task.cancelled():
            task.result()

    async def _serve(self, executor: Requester) -> None:
        sock = executor.request_socket
        sock.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=sock)
        try:
            while True:
                answer = await self._next_answer(executor, reader)
                writer.write(header(len(answer)))
                writer.write(answer)
                # An executor that does not read its answers is served no more until it has.
                await writer.drain()
                # After each request, let the event loop do the supervisor's other work.
                await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except (RequestInvalid, msgspec.DecodeError) as error:
            executor.not_understood(error)
        finally:
            writer.close()

    async def _next_answer(self, executor: Requester, reader: asyncio.StreamReader) -> bytes:
        size = size_after(await reader.readexactly(HEADER_BYTES))
        if size > LARGEST_REQUEST_BYTES:
            raise RequestInvalid(f"no request has {size:,} bytes")
        if size <= _LARGE_BYTES:
            return await self._answer(executor, await reader.readexactly(size))
        return await self._answer_large(executor, reader, size)

    async def _answer_large(
        self, executor: Requester, reader: asyncio.StreamReader, size: int
    ) -> bytes:
        body, kept = bytearray(), 0
        try:
            while True:
                async with self._large:
                    self._kept_bytes -= kept
                    kept = 0
                    try:
                        async with asyncio.timeout(_LONGEST_READ_SECONDS):
                            await _read_on(reader, body, size)
                    except TimeoutError:
                        pass
                    else:
                        return await self._answer(executor, bytes(body))
                if self._kept_bytes + len(body) > _MOST_KEPT_BYTES:
                    # The task gets the error that the store cannot be reached, and may try again.
                    raise ConnectionAbortedError(
                        "the large requests that wait take too much memory"
                    )
                kept = len(body)
                self._kept_bytes += kept
                await _read_on(reader, body, kept + 1)  # wait outside the lock until more arrives
        finally:
            self._kept_bytes -= kept

    async def _answer(self, executor: Requester, body: bytes) -> bytes:
        request = read_request(body)
        if isinstance(request, PutScheduleRequest):
            _check_timing(request)
        try:
            if request.holder is not None:
                self._check_holder(executor, request, request.holder)
            return answer_bytes(await self._call(request))
        except (RequestInvalid, NotUnderstood):
            raise
        except LimpetError as error:
            return refusal_bytes(error)
        except Exception as error:
            return refusal_bytes(StoreUnavailable(f"{type(error).__name__}: {error}"))

    def _check_holder(self, executor: Requester, request: Request, lease: Lease) -> None:
        """Raise unless the executor makes the request for an attempt of its own.

        A thread that outlives its attempt is a late holder: the store refuses it, and records that
        on the timeline of the job. The store can do so only once it knows how the attempt ended;
        before that the request is refused here. So is a request to stage, as the store does not
        check who stages.
        """
        hold = self._ledger.holds.get(lease.job)
        if hold is not None and hold.lease == lease:
            if hold.executor is not executor:
                raise RequestInvalid(
                    f"it sent a request for job {lease.job}, which it was never given"
                )
            if isinstance(request, StageRequest) and self._page.over:
                raise LeaseLost(*lease)
            return
        newest = hold.lease.token if hold is not None else lease.token
        if lease.session != self._session or lease.token > newest:
            raise RequestInvalid(f"it sent a request for job {lease.job}, which it was never given")
        if isinstance(request, StageRequest) or lease in self._ledger.leases():
            raise LeaseLost(*lease)

    async def _call(self, request: Request) -> Any:
        args, kwargs = request.arguments()
        verb = request.verb()
        try:
            return await self._line.serve(verb, *args, **kwargs)
        except LeaseLost:
            if self._page.over or not self._holds(request.holder):
                raise
        # By the clock of this host the lease holds: the store's clock may have been set.
        await self._heart.beat_now()
        return await self._line.serve(verb, *args, **kwargs)

    def _holds(self, lease: Lease | None) -> bool:
        return lease is not None and self._ledger.find(lease.job, lease.token) is not None


def _check_timing(request: PutScheduleRequest) -> None:
    """Check a schedule's timing, because every worker computes the schedule's next ticks."""
    try:
        check_timing(request.schedule.timing)
    except (InvalidOption, ValueError, OverflowError) as error:
        raise RequestInvalid(f"{request.verb()}: {error}") from None


async def _read_on(reader: asyncio.StreamReader, body: bytearray, size: int) -> None:
    """Read until the body has `size` bytes."""
    while len(body) < size:
        part = await reader.read(size - len(body))
        if not part:
            raise asyncio.IncompleteReadError(b"", size)
        body += part
