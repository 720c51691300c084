"""The parts of a supervisor that run side by side; when one of them fails, the session is over."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from limpet import log
from limpet.host.shortage import is_lack, sentence_of
from limpet.worker.supervisor.store_line import SessionOver


class Defect(SessionOver):
    """A part of the supervisor failed; the next session may fail in the same way, and at once."""


class SessionParts:
    """The parts that run for as long as the session, and the reason why the session ended."""

    def __init__(self, *, debug: bool = False) -> None:
        """`debug`: log the traceback also of errors that a lack of memory or files explains."""
        self._debug = debug
        self._running: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[SessionOver] = asyncio.get_running_loop().create_future()

    def serve(self, part: Coroutine[Any, Any, None]) -> None:
        """Run a part; an error that it raises ends the session."""
        task = asyncio.get_running_loop().create_task(part)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    def callback_failed(self, loop: asyncio.AbstractEventLoop, facts: dict[str, Any]) -> None:
        """The event loop's exception handler: a callback of the supervisor has raised."""
        error = facts.get("exception")
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, SessionOver):
            self.end(error)
        else:
            self._defect(error)

    def _defect(self, error: BaseException) -> None:
        """A part failed by a defect: a new session is better than a worker that half works."""
        if is_lack(error) and not self._debug:
            log.emit("part_lacks", error=sentence_of(error))
        else:
            log.logger.error("a part of the supervisor failed", exc_info=error)
        self.end(Defect(f"{type(error).__name__}: {error}"))

    def end(self, end: SessionOver) -> None:
        """The session is over; the first reason counts."""
        if not self._over.done():
            self._over.set_result(end)

    def are_over(self) -> bool:
        return self._over.done()

    def check(self) -> None:
        """Raise the reason if the session is over."""
        if self._over.done():
            raise self._over.result()

    async def any_of(self, *waited_for: "asyncio.Future[Any]") -> None:
        """Wait until one of these is done; raises if the session ends before."""
        all_: list[asyncio.Future[Any]] = [*waited_for, self._over]
        await asyncio.wait(all_, return_when=asyncio.FIRST_COMPLETED)
        self.check()

    async def first(self, waited_for: "asyncio.Future[Any]") -> Any:
        """The result of this future; raises if the session ends before."""
        await self.any_of(waited_for)
        return waited_for.result()
