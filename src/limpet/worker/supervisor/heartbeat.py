"""Renews the lease, and writes on the page until when it certainly holds."""

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

# A renewal that is later than this is logged: 0.25 s is promised.
_LATE_SECONDS = 0.25
# How soon after its begin a job is reported as begun, so that its loss is charged.
_BEGUN_SECONDS = 0.03
# A lease is too short for the line to the store if fewer renewals than this, one after the other,
# fit into the certain part of the lease; and by how many of the last renewals that is judged.
_LEAST_PER_LEASE, _JUDGED = 5, 10


class Heartbeat:
    """Renews every fifth of a lease, and at once when there is a reason to."""

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
        self._taken_seconds: deque[float] = deque(maxlen=_JUDGED)
        self._slow = False

    def registered(self, sent_at: int) -> None:
        """The session was registered; its lease began no earlier than at `sent_at`."""
        self._page.lease_ends_at = self._certain_until(sent_at)
        self._due_at = sent_at + round(self._plan.renewal_seconds * 1e6)

    def beat_soon(self) -> None:
        """Renew at once: there is something to report, or a cancellation was requested."""
        self._wake.set()

    async def beat_now(self) -> None:
        """Renew, and return when the store has answered, whatever the answer."""
        beaten: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(beaten)
        self.beat_soon()
        await beaten

    def drain(self) -> None:
        """Report to the store, now and with each renewal, that the worker is draining."""
        self._draining = True
        self.beat_soon()

    def jobs_have_begun(self) -> None:
        """Renew soon to report jobs as begun, unless an exchange reports them before."""
        asyncio.get_running_loop().call_later(_BEGUN_SECONDS, self._beat_for_begun)

    def _beat_for_begun(self) -> None:
        if self._ledger.has_next_begun:
            self.beat_soon()

    async def run(self, renewed: Callable[[Renewed], None]) -> None:
        """Renew for as long as the session lives; `renewed` is called with each answer."""
        while True:
            try:
                timeout = max(0.0, (self._due_at - now()) / 1e6)
                await asyncio.wait_for(self._wake.wait(), timeout)
            except TimeoutError:
                self._note_lateness()
            self._wake.clear()
            waiting, self._waiting = self._waiting, []
            try:
                renewed(await self._beat())
            finally:
                for beaten in waiting:
                    if not beaten.done():
                        beaten.set_result(None)

    def _note_lateness(self) -> None:
        late_seconds = (now() - self._due_at) / 1e6
        if late_seconds > _LATE_SECONDS:
            log.emit("heartbeat_late", seconds=late_seconds, session=self._session)

    async def _beat(self) -> Renewed:
        started_at = now()
        self._due_at = started_at + round(self._plan.renewal_seconds * 1e6)
        begun = self._ledger.next_begun()
        answered = self._ledger.answered_exchanges
        self.unanswered_since = started_at
        sent_at, answer = await self._renew(begun)
        self.unanswered_since = None
        if answer.standing is Standing.PAST and not self._page.over:
            # By the clock of this host the lease has not run out: the store's clock was set.
            log.emit("lease_stepped", session=self._session)
            sent_at, answer = await self._renew(begun, stepped=True)
        if self._page.over:  # then everything is being killed by now
            raise SessionOver("the store answered after the lease had run out")
        if answer.standing not in (Standing.LIVE, Standing.DRAINING):
            raise SessionOver(f"the store answered that the session is {answer.standing}")
        if answer.seq < answered:
            # Before the page is written: the rolled back store may give running jobs to others.
            raise SessionOver(
                f"the store remembers {answer.seq} of {answered} exchanges, so it was rolled back"
            )
        self._page.lease_ends_at = max(self._page.lease_ends_at, self._certain_until(sent_at))
        self._ledger.repeat_begun(answer.unrecorded)
        self._note_time_taken((now() - started_at) / 1e6)
        return answer

    async def _renew(self, begun: Sequence[Lease], *, stepped: bool = False) -> tuple[int, Renewed]:
        return await self._line.renew(begun, self._draining, stepped)

    def _note_time_taken(self, seconds: float) -> None:
        """Log when renewals take so long that the lease may soon run out."""
        self._taken_seconds.append(seconds)
        usual_seconds = sum(self._taken_seconds) / len(self._taken_seconds)
        certain_seconds = self._plan.settings.lease - self._plan.margin_seconds
        most_seconds = certain_seconds / _LEAST_PER_LEASE
        if len(self._taken_seconds) == _JUDGED and usual_seconds > most_seconds:
            if not self._slow:
                enough = ceil(usual_seconds * _LEAST_PER_LEASE * 1.5 + 1)
                log.emit(
                    "line_slow", seconds=usual_seconds, lease=self._plan.settings.lease,
                    enough=enough, session=self._session,
                )  # fmt: skip
            self._slow = True
        elif usual_seconds < most_seconds / 2:
            self._slow = False

    def _certain_until(self, sent_at: int) -> int:
        return sent_at + round((self._plan.settings.lease - self._plan.margin_seconds) * 1e6)
