"""The heart: renews the lease, and writes on the page until when it certainly holds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from limpet import log
from limpet.domain.session import Standing
from limpet.storage.answers import Renewed
from limpet.worker.page import Page, now
from limpet.worker.plan import Plan

# Past this a late renewal is worth a line: the promise is 0.25 s.
_LATE_SECONDS = 0.25
# How soon after a job began the store is told, so that losing it is charged.
BEGUN_SECONDS = 0.03


class Heart:
    """Beats every fifth of a lease, and at once when there is a reason to."""

    def __init__(
        self,
        session: str,
        plan: Plan,
        page: Page,
        ask: Callable[..., Awaitable[Any]],
        untold: Callable[[], list[Any]],
        renewed: Callable[[Renewed], None],
        lost: Callable[[str], None],
    ) -> None:
        self._session = session
        self._plan = plan
        self._page = page
        self._ask = ask
        self._untold = untold
        self._renewed = renewed
        self._lost = lost
        self._wake = asyncio.Event()
        self.draining = False

    def registered(self, asked: int) -> None:
        """The lease began no earlier than `asked`, the clock read before registering."""
        self._page.moment = self._certain_until(asked)
        self._due = asked + round(self._plan.renewal * 1e6)

    def beat_soon(self) -> None:
        """Renew at once: something is to be told, or a cancellation was asked for."""
        self._wake.set()

    async def run(self) -> None:
        while True:
            try:
                timeout = max(0.0, (self._due - now()) / 1e6)
                await asyncio.wait_for(self._wake.wait(), timeout)
            except TimeoutError:
                self._note_lateness()
            self._wake.clear()
            await self._beat()

    def _note_lateness(self) -> None:
        late = (now() - self._due) / 1e6
        if late > _LATE_SECONDS:
            log.say("heartbeat_late", seconds=late, session=self._session)

    async def _beat(self) -> None:
        asked = now()
        self._due = asked + round(self._plan.renewal * 1e6)
        answer: Renewed = await self._ask("renew", self._session, self._untold(), self.draining)
        if self._page.over:
            self._lost("the store answered after the lease")  # everything is being ended by now
        elif answer.standing in (Standing.LIVE, Standing.DRAINING):
            self._page.moment = max(self._page.moment, self._certain_until(asked))
            self._renewed(answer)
        else:
            self._lost(f"the store says that it is {answer.standing}")

    def _certain_until(self, asked: int) -> int:
        return asked + round((self._plan.lease - self._plan.margin) * 1e6)
