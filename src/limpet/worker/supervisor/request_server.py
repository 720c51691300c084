"""Serves the requests of tasks: what they hand in and look up goes through the supervisor.

A job is not trusted. What an executor sends is measured before it is read, read before anything
acts on it, and served only for an attempt that the executor has. What does not pass ends that
executor. An error of our own while a verb is served is the task's to hear, and nobody's to pay.
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

# Requests above this take turns, so that they do not fill the memory together.
_LARGE_BYTES: Final = 1 << 20
# How long one turn takes at most. An executor sends slowly where a neighbour of the task keeps the
# interpreter, so whatever has not arrived by then waits for another turn, behind the others.
_LONGEST_TURN_SECONDS: Final = 30.0
# What all that wait for another turn may keep of what has arrived.
_MOST_KEPT_BYTES: Final = 2 * LARGEST_REQUEST_BYTES


class Requester(Protocol):
    """An executor, as far as its requests matter."""

    @property
    def desk(self) -> socket.socket: ...

    def not_understood(self, error: Exception) -> None: ...


class RequestServer:
    """Answers executors: each one request at a time, in turn; many executors at once."""

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
        """Begin to serve one executor."""
        task = asyncio.get_running_loop().create_task(self._serve(executor))
        self._serving.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """An error of our own goes to the event loop's handler, which ends the session: this
        executor's tasks would wait for ever for their answers.
        """
        self._serving.discard(task)
        if not task.cancelled():
            task.result()

    async def _serve(self, executor: Requester) -> None:
        sock = executor.desk
        sock.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=sock)
        try:
            while True:
                answer = await self._next_answer(executor, reader)
                writer.write(header(len(answer)))
                writer.write(answer)
                # An executor that does not read its answers is not heard until it has.
                await writer.drain()
                # One request of each, and then whatever else the supervisor has to do.
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
                        async with asyncio.timeout(_LONGEST_TURN_SECONDS):
                            await _read_on(reader, body, size)
                    except TimeoutError:
                        pass
                    else:
                        return await self._answer(executor, bytes(body))
                if self._kept_bytes + len(body) > _MOST_KEPT_BYTES:
                    # The task hears that the store cannot be reached, and may try again.
                    raise ConnectionAbortedError("too much of large requests is kept")
                kept = len(body)
                self._kept_bytes += kept
                await _read_on(reader, body, kept + 1)  # no turn for what does not come at all
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
        """See to it that an executor speaks for its own attempts only.

        A thread that outlives its attempt is a late holder: the store refuses it, and tells it on
        the timeline of the job. So the store must have heard how the attempt ended, and where it
        has not, it is refused here; so is one who stages, because the store does not ask whose
        that is.
        """
        hold = self._ledger.holds.get(lease.job)
        if hold is not None and hold.lease == lease:
            if hold.executor is not executor:
                raise RequestInvalid(f"it spoke for job {lease.job}, which it was never given")
            if isinstance(request, StageRequest) and self._page.over:
                raise LeaseLost(*lease)
            return
        newest = hold.lease.token if hold is not None else lease.token
        if lease.session != self._session or lease.token > newest:
            raise RequestInvalid(f"it spoke for job {lease.job}, which it was never given")
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
        # By our own clock it has not: that of the store may have been set.
        await self._heart.beat_now()
        return await self._line.serve(verb, *args, **kwargs)

    def _holds(self, lease: Lease | None) -> bool:
        return lease is not None and self._ledger.find(lease.job, lease.token) is not None


def _check_timing(request: PutScheduleRequest) -> None:
    """Every worker reckons the next ticks of a schedule."""
    try:
        check_timing(request.schedule.timing)
    except (InvalidOption, ValueError, OverflowError) as error:
        raise RequestInvalid(f"{request.verb()}: {error}") from None


async def _read_on(reader: asyncio.StreamReader, body: bytearray, size: int) -> None:
    """Read until the body has so many bytes."""
    while len(body) < size:
        part = await reader.read(size - len(body))
        if not part:
            raise asyncio.IncompleteReadError(b"", size)
        body += part
