"""The supervisor's line to the store: verbs in threads, said again until the store answers."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

from limpet import log
from limpet.domain.cause import BegunAnew, Cause
from limpet.domain.errors import (
    LimpetError,
    SchemaMismatch,
    SequenceError,
    SessionLost,
    StoreBusy,
    StoreError,
    StoreMoved,
    StoreRefused,
    StoreRolledBack,
)
from limpet.storage.base import Store, Topic
from limpet.worker.guardian import ANEW, WRONG_USAGE
from limpet.worker.page import Page, now

_PAUSE_SECONDS = 0.1
# What a store says that will not change by asking again.
_WRONG_PLACE = (SchemaMismatch, StoreMoved, StoreRefused)
_FORGOTTEN = (StoreRolledBack, SessionLost, SequenceError)


class SessionOver(Exception):
    """The session cannot go on; `cause` tells the store why, and the code what comes next."""

    def __init__(self, reason: str, cause: Cause | None = None, code: int = ANEW) -> None:
        super().__init__(reason)
        self.cause = cause or BegunAnew(reason)
        self.code = code


class StoreLine:
    """Calls the verbs of a store without blocking the event loop.

    Exchanges and renewals have a thread each, so that neither waits for the other or for a sweep.
    """

    def __init__(self, store: Store, session: str, page: Page, *, first: bool) -> None:
        """`first`: it never answered this worker, so one that cannot be used is a wrong URL."""
        self._first = first
        self.store = store
        self._session = session
        self._page = page
        self._pools = {
            verb: ThreadPoolExecutor(count, thread_name_prefix=f"limpet-{verb or 'store'}")
            for verb, count in (("exchange", 1), ("renew", 1), ("desk", 4), ("", 4))
        }
        self.failing_since: int | None = None

    async def call(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """One verb, once."""
        pool = self._pools.get(verb, self._pools[""])
        call = partial(getattr(self.store, verb), *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(pool, call)

    async def serve(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """One verb that a task asked for; it keeps nobody else waiting."""
        call = partial(getattr(self.store, verb), *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._pools["desk"], call)

    async def do(self, work: Callable[[], Any]) -> Any:
        """Something that uses the store, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pools[""], work)

    async def ask(self, verb: str, *args: Any) -> Any:
        """One verb, said again until the store answers; its last word ends the session."""
        return await self._insist(lambda: self.call(verb, *args))

    async def persist(self, work: Callable[[], Any]) -> Any:
        """Something that uses the store, tried again until it could be done."""
        return await self._insist(lambda: self.do(work))

    async def _insist(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                answer = await attempt()
            except _WRONG_PLACE as error:
                raise SessionOver(str(error), code=WRONG_USAGE) from error
            except _FORGOTTEN as error:
                raise SessionOver(str(error)) from error
            except StoreError as error:
                if self._first and not isinstance(error, StoreBusy):
                    raise SessionOver(str(error), code=WRONG_USAGE) from error
                self._failed(error)
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self._first = False
                self._answered()
                return answer

    def listen(self, topic: Topic, heard: Callable[[], None]) -> None:
        """Call `heard` whenever the store rings the bell of the topic."""
        bell = self.store.listen(topic)

        def rang() -> None:
            bell.wait(timedelta(0))
            heard()

        asyncio.get_running_loop().add_reader(bell.fileno(), rang)

    def _failed(self, error: LimpetError) -> None:
        if self.failing_since is None:
            self.failing_since = now()
            left = max(0.0, (self._page.moment - now()) / 1e6)
            log.say("store_failed", error=error, seconds=left, session=self._session)

    def _answered(self) -> None:
        if self.failing_since is not None:
            seconds = (now() - self.failing_since) / 1e6
            self.failing_since = None
            log.say("store_back", seconds=seconds, session=self._session)
