"""The supervisor's line to the store: verbs run in threads, repeated until the store answers."""

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
from limpet.storage.contract.bell import Bell, Topic
from limpet.storage.contract.store import Store
from limpet.worker.supervisor.exchanger import Exchange, Exchanger
from limpet.worker.supervisor.hedged import MOST_AT_ONCE, first_answer
from limpet.worker.wire.page import Page, now
from limpet.worker.wire.plan import ANEW, WRONG_USAGE

# Between two tries: doubled each time, up to the longest. Renewals pause less: a lease runs out.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, _LONGEST_OF_RENEWALS_SECONDS = 0.1, 2.0, 1.0
# Answers of a store that no repeat will change.
_WRONG_PLACE = (SchemaMismatch, StoreMoved, StoreRefused)
_FORGOTTEN = (StoreRolledBack, SessionLost, SequenceError)


class SessionOver(Exception):
    """The session cannot go on.

    `cause`: why, as the store keeps it. `code`: the exit code, by which the guardian decides what
    comes next.
    """

    def __init__(self, reason: str, cause: Cause | None = None, code: int = ANEW) -> None:
        super().__init__(reason)
        self.cause = cause or BegunAnew(reason)
        self.code = code


class StoreLine:
    """Calls the verbs of a store without blocking the event loop.

    Exchanges and renewals have threads of their own, so that neither waits for the other or for a
    sweep. While the store does not answer, each caller tries less and less often; the first call
    that is answered wakes the others.
    """

    def __init__(
        self, store: Store, session: str, page: Page, *, first: bool, lease_seconds: float
    ) -> None:
        """`first`: the store never answered this worker, so an error (but no outage) is final.

        `lease_seconds`: the session's lease, which bounds the pauses between renewals.
        """
        self._first = first
        self._renewal_pause_seconds = min(lease_seconds / 5, _LONGEST_OF_RENEWALS_SECONDS)
        # Soon, because a renewal whose answer is lost may still reach the store. The later it was
        # sent, the later the jobs of this worker are recovered, should it end meanwhile.
        self._late_seconds = min(lease_seconds / 20, _LONGEST_OF_RENEWALS_SECONDS / 2)
        self._back = asyncio.Event()
        self.store = store
        self._session = session
        self._page = page
        self._pools = {
            verb: ThreadPoolExecutor(count, thread_name_prefix=f"limpet-{verb or 'store'}")
            for verb, count in (("renew", MOST_AT_ONCE + 1), ("requests", 4), ("", 4))
        }
        self._exchanger = Exchanger()
        self.failing_since: int | None = None

    async def call(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """One verb, once."""
        pool = self._pools.get(verb, self._pools[""])
        call = partial(getattr(self.store, verb), *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(pool, call)

    async def serve(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """One verb that a task requested, in a thread that only such requests use."""
        call = partial(getattr(self.store, verb), *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._pools["requests"], call)

    async def do(self, work: Callable[[], Any]) -> Any:
        """Run work that uses the store in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pools[""], work)

    async def request(self, verb: str, *args: Any) -> Any:
        """One verb, repeated until the store answers; an answer that is final ends the session."""
        return await self._insist(lambda: self.call(verb, *args), _LONGEST_PAUSE_SECONDS)

    async def renew(self, *args: Any) -> tuple[int, Renewed]:
        """A renewal, repeated until the store answers; returns when it was sent, and the answer.

        While an answer is late the renewal is sent on another connection as well. The time is by
        the clock of the page.
        """

        async def send() -> tuple[int, Renewed]:
            sent_at = now()
            return sent_at, await self.call("renew", self._session, *args)

        answer: tuple[int, Renewed] = await self._insist(
            lambda: first_answer(send, self._late_seconds), self._renewal_pause_seconds
        )
        return answer

    async def exchange(self, *args: Any, first: Exchange | None = None) -> Exchanged:
        """An exchange, repeated until the store answers; `first`: a try that has begun already."""
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
        """Make this exchange as soon as the store rings, unless it is withdrawn before.

        `begins`: called in the thread, just before the exchange is made.
        """
        exchange = Exchange(partial(self.store.exchange, *args), begins)
        self._exchanger.stand_by(exchange)
        return exchange

    def withdraw(self) -> bool:
        """Withdraw the exchange that stands by; False if it has begun."""
        return self._exchanger.withdraw()

    async def listen_for_jobs(self, rang: Callable[[], None]) -> None:
        """From now on, make the exchange that stands by when jobs become ready.

        `rang`: called if none stands by.
        """
        bell: Bell = await self.persist(lambda: self.store.listen(Topic.READY))
        self._exchanger.listen(bell, rang)

    async def persist(self, work: Callable[[], Any]) -> Any:
        """Run work that uses the store, and try again until it succeeds."""
        return await self._insist(lambda: self.do(work), _LONGEST_PAUSE_SECONDS)

    async def _insist(self, attempt: Callable[[], Awaitable[Any]], longest_seconds: float) -> Any:
        pause_seconds = min(_FIRST_PAUSE_SECONDS, longest_seconds)
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
                await self._rest(pause_seconds)
                pause_seconds = min(2 * pause_seconds, longest_seconds)
            else:
                self._first = False
                self._answered()
                return answer

    async def _rest(self, seconds: float) -> None:
        """Wait before the next try, or until another call was answered.

        The pause is shortened at random, so that the workers of a store do not all try at once.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._back.wait(), seconds * random.uniform(0.7, 1.0))

    async def listen(self, topic: Topic, on_ring: Callable[[], None]) -> None:
        """Call `on_ring` whenever the store rings the bell of the topic, from now on."""
        bell: Bell = await self.persist(lambda: self.store.listen(topic))

        def rang() -> None:
            bell.wait(timedelta(0))
            on_ring()

        asyncio.get_running_loop().add_reader(bell.fileno(), rang)

    def _failed(self, error: LimpetError) -> None:
        self._back.clear()
        if self.failing_since is None:
            self.failing_since = now()
            if self._page.lease_ends_at:
                left = max(0.0, (self._page.lease_ends_at - now()) / 1e6)
                log.emit("store_failed", error=error, seconds=left, session=self._session)
            else:
                log.emit("store_awaited", error=error, session=self._session)

    def _answered(self) -> None:
        self._back.set()
        if self.failing_since is not None:
            seconds = (now() - self.failing_since) / 1e6
            self.failing_since = None
            log.emit("store_back", seconds=seconds, session=self._session)
