"""The supervisor's line to the store: verbs in threads, said again until the store answers."""

import asyncio
import contextlib
import random
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
    StoreUnreachable,
)
from limpet.storage.contract.answers import Exchanged, Renewed
from limpet.storage.contract.store import Bell, Store, Topic
from limpet.worker.supervisor.exchanger import Exchange, Exchanger
from limpet.worker.supervisor.hedged import MOST_AT_ONCE, first_answer
from limpet.worker.wire.page import Page, now
from limpet.worker.wire.plan import ANEW, WRONG_USAGE

# Between two tries: doubled each time, up to the longest; less for renewals, which cannot wait.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, _LONGEST_OF_RENEWALS = 0.1, 2.0, 1.0
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

    Exchanges and renewals have threads of their own, so that neither waits for the other or for a
    sweep.
    While the store does not answer each tries less and less often; the first who is answered wakes
    the others.
    """

    def __init__(
        self, store: Store, session: str, page: Page, *, first: bool, lease: float
    ) -> None:
        """`first`: it never answered this worker, so one that cannot be used is a wrong URL.

        `lease`: that of the session, in seconds; a renewal is patient for a share of it.
        """
        self._first = first
        self._between_renewals = min(lease / 5, _LONGEST_OF_RENEWALS)
        # Soon: one that is sent later and arrives, though no answer does, puts off recovery.
        self._late = min(lease / 20, _LONGEST_OF_RENEWALS / 2)
        self._back = asyncio.Event()
        self.store = store
        self._session = session
        self._page = page
        self._pools = {
            verb: ThreadPoolExecutor(count, thread_name_prefix=f"limpet-{verb or 'store'}")
            for verb, count in (("renew", MOST_AT_ONCE + 1), ("desk", 4), ("", 4))
        }
        self._exchanger = Exchanger()
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
        return await self._insist(lambda: self.call(verb, *args), _LONGEST_PAUSE_SECONDS)

    async def renew(self, *args: Any) -> tuple[int, Renewed]:
        """A renewal, said again until the store answers, on another connection where an answer is
        late; and when it was sent, by the clock of the page.
        """

        async def send() -> tuple[int, Renewed]:
            asked = now()
            return asked, await self.call("renew", self._session, *args)

        answer: tuple[int, Renewed] = await self._insist(
            lambda: first_answer(send, self._late), self._between_renewals
        )
        return answer

    async def exchange(self, *args: Any, first: Exchange | None = None) -> Exchanged:
        """An exchange, said again until the store answers; `first`: it has begun already."""
        tries = iter((first,) if first else ())

        async def attempt() -> Any:
            exchange = next(tries, None)
            if exchange is None:
                exchange = Exchange(partial(self.store.exchange, *args))
                self._exchanger.make(exchange)
            return await exchange.answer

        answer: Exchanged = await self._insist(attempt, _LONGEST_PAUSE_SECONDS)
        return answer

    def stand_by(self, *args: Any, begins: Callable[[], None]) -> Exchange:
        """Exchange as soon as the store rings, unless that is withdrawn before."""
        exchange = Exchange(partial(self.store.exchange, *args), begins)
        self._exchanger.stand_by(exchange)
        return exchange

    def withdraw(self) -> bool:
        """Exchange no more by itself; False if it has begun."""
        return self._exchanger.withdraw()

    async def hear_ready(self, rang: Callable[[], None]) -> None:
        """Exchange what stands by when jobs become ready, else call `rang`; from now on."""
        bell: Bell = await self.persist(lambda: self.store.listen(Topic.READY))
        self._exchanger.hear(bell, rang)

    async def persist(self, work: Callable[[], Any]) -> Any:
        """Something that uses the store, tried again until it could be done."""
        return await self._insist(lambda: self.do(work), _LONGEST_PAUSE_SECONDS)

    async def _insist(self, attempt: Callable[[], Awaitable[Any]], longest: float) -> Any:
        pause = min(_FIRST_PAUSE_SECONDS, longest)
        while True:
            try:
                answer = await attempt()
            except _WRONG_PLACE as error:
                raise SessionOver(str(error), code=WRONG_USAGE) from error
            except _FORGOTTEN as error:
                raise SessionOver(str(error)) from error
            except StoreError as error:
                if self._first and not isinstance(error, StoreBusy | StoreUnreachable):
                    raise SessionOver(str(error), code=WRONG_USAGE) from error
                self._failed(error)
                await self._rest(pause)
                pause = min(2 * pause, longest)
            else:
                self._first = False
                self._answered()
                return answer

    async def _rest(self, seconds: float) -> None:
        """Wait before the next try, or until somebody else was answered.

        Not all workers of a store at the same moment, so by chance a little less.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._back.wait(), seconds * random.uniform(0.7, 1.0))

    async def listen(self, topic: Topic, heard: Callable[[], None]) -> None:
        """Call `heard` whenever the store rings the bell of the topic, from now on."""
        bell: Bell = await self.persist(lambda: self.store.listen(topic))

        def rang() -> None:
            bell.wait(timedelta(0))
            heard()

        asyncio.get_running_loop().add_reader(bell.fileno(), rang)

    def _failed(self, error: LimpetError) -> None:
        self._back.clear()
        if self.failing_since is None:
            self.failing_since = now()
            if self._page.moment:
                left = max(0.0, (self._page.moment - now()) / 1e6)
                log.emit("store_failed", error=error, seconds=left, session=self._session)
            else:
                log.emit("store_awaited", error=error, session=self._session)

    def _answered(self) -> None:
        self._back.set()
        if self.failing_since is not None:
            seconds = (now() - self.failing_since) / 1e6
            self.failing_since = None
            log.emit("store_back", seconds=seconds, session=self._session)
