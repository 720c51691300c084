"""The heart: renews the lease, and writes on the page until when it certainly holds."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from math import ceil

from limpet import log
from limpet.domain.lease import Lease
from limpet.domain.session import Standing
from limpet.storage.contract.answers import Renewed
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.store_line import SessionOver
from limpet.worker.wire.page import now

# Past this a late renewal is worth a line: the promise is 0.25 s.
_LATE_SECONDS = 0.25
# How soon after a job began the store is told, so that losing it is charged.
_BEGUN_SECONDS = 0.03
# A lease is too short for a line on which fewer renewals than that, one after the other, fit into
# what is certain of it; judged by the last ones.
_LEAST_PER_LEASE, _JUDGED = 5, 10


class Heartbeat:
    """Beats every fifth of a lease, and at once when there is a reason to."""

    def __init__(self, scope: SessionScope) -> None:
        self._session = scope.session
        self._plan = scope.plan
        self._page = scope.page
        self._line = scope.line
        self._ledger = scope.ledger
        self._wake = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._draining = False
        self.unanswered_since: int | None = None  # when a renewal was sent that has no answer
        self._taken: deque[float] = deque(maxlen=_JUDGED)
        self._slow = False

    def registered(self, asked: int) -> None:
        """The lease began no earlier than `asked`, the clock read before registering."""
        self._page.moment = self._certain_until(asked)
        self._due = asked + round(self._plan.renewal * 1e6)

    def beat_soon(self) -> None:
        """Renew at once: something is to be told, or a cancellation was asked for."""
        self._wake.set()

    async def beat_now(self) -> None:
        """Renew, and return when the store has answered, whatever it said."""
        beaten: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(beaten)
        self.beat_soon()
        await beaten

    def drain(self) -> None:
        """Tell the store, now and with each renewal, that the worker is leaving."""
        self._draining = True
        self.beat_soon()

    def jobs_have_begun(self) -> None:
        """Renew soon, unless an exchange tells the store before that jobs have begun."""
        asyncio.get_running_loop().call_later(_BEGUN_SECONDS, self._tell_begun)

    def _tell_begun(self) -> None:
        if self._ledger.has_begun:
            self.beat_soon()

    async def run(self, renewed: Callable[[Renewed], None]) -> None:
        """For as long as the session lives; `renewed` hears what the store answers."""
        while True:
            try:
                timeout = max(0.0, (self._due - now()) / 1e6)
                await asyncio.wait_for(self._wake.wait(), timeout)
            except TimeoutError:
                self._note_lateness()
            self._wake.clear()
            waiting, self._waiting = self._waiting, []
            try:
                renewed(await self._beat())
            finally:
                for each in waiting:
                    if not each.done():
                        each.set_result(None)

    def _note_lateness(self) -> None:
        late = (now() - self._due) / 1e6
        if late > _LATE_SECONDS:
            log.emit("heartbeat_late", seconds=late, session=self._session)

    async def _beat(self) -> Renewed:
        started = now()
        self._due = started + round(self._plan.renewal * 1e6)
        begun = self._ledger.tell_begun()
        answered = self._ledger.answered_exchanges
        self.unanswered_since = started
        asked, answer = await self._renew(begun)
        self.unanswered_since = None
        if answer.standing is Standing.PAST and not self._page.over:
            # By our own clock the lease has not run out: that of the store was set.
            log.emit("lease_stepped", session=self._session)
            asked, answer = await self._renew(begun, stepped=True)
        if self._page.over:  # and everything is being ended by now
            raise SessionOver("the store answered after the lease")
        if answer.standing not in (Standing.LIVE, Standing.DRAINING):
            raise SessionOver(f"the store says that it is {answer.standing}")
        if answer.seq < answered:
            # Before the page is written: what runs may be ready for others there.
            raise SessionOver(
                f"the store remembers {answer.seq} of {answered} exchanges, so it was rolled back"
            )
        self._page.moment = max(self._page.moment, self._certain_until(asked))
        self._ledger.tell_again(answer.untold)
        self._note_time_taken((now() - started) / 1e6)
        return answer

    async def _renew(self, begun: Sequence[Lease], *, stepped: bool = False) -> tuple[int, Renewed]:
        return await self._line.renew(begun, self._draining, stepped)

    def _note_time_taken(self, seconds: float) -> None:
        """Say when renewals take so long that a little more would end what runs."""
        self._taken.append(seconds)
        usual = sum(self._taken) / len(self._taken)
        window = self._plan.settings.lease - self._plan.margin
        if len(self._taken) == _JUDGED and usual > window / _LEAST_PER_LEASE:
            if not self._slow:
                enough = ceil(usual * _LEAST_PER_LEASE * 1.5 + 1)
                log.emit(
                    "line_slow", seconds=usual, lease=self._plan.settings.lease, enough=enough,
                    session=self._session,
                )  # fmt: skip
            self._slow = True
        elif usual < window / _LEAST_PER_LEASE / 2:
            self._slow = False

    def _certain_until(self, asked: int) -> int:
        return asked + round((self._plan.settings.lease - self._plan.margin) * 1e6)
