"""The way out: stop claiming, finish until the deadline, stop, confirm, release; renew last."""

import asyncio
import contextlib
from collections.abc import Callable

from limpet import log
from limpet.domain.cause import Cause, Drained
from limpet.domain.errors import LimpetError
from limpet.domain.plural import number_of
from limpet.maintenance.sweeper import recover_all
from limpet.worker.supervisor.claimer import Claimer
from limpet.worker.supervisor.dispatcher import Dispatcher
from limpet.worker.supervisor.executors import Executors
from limpet.worker.supervisor.guardian_link import StopRequest
from limpet.worker.supervisor.heartbeat import Heartbeat
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.services import Services
from limpet.worker.supervisor.session_parts import SessionParts
from limpet.worker.supervisor.settling import at_the_end
from limpet.worker.supervisor.store_line import SessionOver
from limpet.worker.wire.page import now

# How long jobs that must stop at the deadline may take before they are ended.
_LAST_GRACE_SECONDS = 0.3
# How long stop hooks may take at the end.
_GOODBYE_SECONDS = 1.0
_LOOK_SECONDS = 0.005
# While the store does not answer there is no hurry.
_SLOW_LOOK_SECONDS = 0.05
# How long an exchange may hang before the store gives it up, and a moment to say it again.
_LONGEST_EXCHANGE_SECONDS = 20.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 2.0


class Drain:
    """Takes one session to its end in order."""

    def __init__(
        self,
        scope: SessionScope,
        parts: SessionParts,
        crew: Executors,
        dispatcher: Dispatcher,
        claimer: Claimer,
        heart: Heartbeat,
        services: Services,
    ) -> None:
        self._plan = scope.plan
        self._session = scope.session
        self._line = scope.line
        self._ledger = scope.ledger
        self._parts = parts
        self._crew = crew
        self._dispatcher = dispatcher
        self._claimer = claimer
        self._heart = heart
        self._services = services
        self._released_before = 0

    async def run(self, seconds: float, stop: StopRequest) -> None:
        """Let jobs finish, then stop them; raises if the session is lost meanwhile.

        Whoever asks the worker to stop for the second time does not want to wait for anything.
        """
        check = self._parts.check
        self._released_before = self._ledger.released
        self._claimer.stop_claiming()
        self._heart.drain()
        self._dispatcher.hand_back_unstarted()
        holds = self._ledger.holds
        log.emit("worker_draining", running=len(holds), seconds=seconds, session=self._session)
        await self._wait(seconds, lambda: bool(holds) and stop.signals < 2, check)
        if stop.signals < 2:
            await self._stop_all(check)
        if not holds and stop.signals < 2:
            await self._say_goodbye(check)

    @property
    def released(self) -> str:
        """How many jobs were handed back since the worker was asked to stop, in words."""
        count = self._ledger.released - self._released_before
        return f"{number_of(count, 'job')} {'was' if count == 1 else 'were'}"

    async def release_all(self) -> None:
        """Hand back what is left, once nothing of it lives; then the session is over."""
        for hold in list(self._ledger.holds.values()):
            self._ledger.settle(hold, at_the_end(hold))
        with contextlib.suppress(SessionOver):
            await self._services.report()
        self._claimer.tell_soon()
        lost = self._parts.are_over  # then nothing can be told any more
        await self._wait(self._plan.settings.lease, lambda: self._ledger.has_untold and not lost())
        with contextlib.suppress(LimpetError):
            await self._end(Drained())

    async def lose(self, cause: Cause, give_up: Callable[[], bool]) -> bool:
        """Tell the outcomes that are known, and the cause of all that are lost; True if told.

        For as long as the store does not answer: an outage is to cost no job anything.
        """
        self._claimer.stop_claiming()
        pause = _FIRST_PAUSE_SECONDS
        slowly = _SLOW_LOOK_SECONDS
        while True:
            await self._wait(1.0, lambda: self._ledger.has_untold, look=slowly)
            # What it had to tell goes first when the store answers again: after the end of the
            # session it would be refused, and the jobs run again although they are done. An
            # exchange that tells nothing may hang; whoever it claimed for is dead, and what it
            # claims is taken back.
            await self._wait(
                _LONGEST_EXCHANGE_SECONDS,
                lambda: self._claimer.in_flight and self._ledger.has_untold and not give_up(),
                look=slowly,
            )
            with contextlib.suppress(LimpetError):
                await self._end(cause)
                return True
            if give_up():
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _end(self, cause: Cause) -> None:
        """Mark the session dead and take back what it still had."""
        store, name = self._line.store, self._plan.name
        await self._line.do(lambda: store.end(self._session, cause))
        await self._line.do(lambda: recover_all(store, self._session, cause, name))

    async def _stop_all(self, check: Callable[[], None]) -> None:
        self._dispatcher.stop_all(Drained(), _LAST_GRACE_SECONDS)
        await self._wait(_LAST_GRACE_SECONDS, lambda: bool(self._ledger.holds), check)

    async def _say_goodbye(self, check: Callable[[], None]) -> None:
        """Let executors run their stop hooks."""
        for executor in list(self._crew.executors.values()):
            executor.end()
        await self._wait(_GOODBYE_SECONDS, lambda: bool(self._crew.executors), check)

    @staticmethod
    async def _wait(
        seconds: float,
        while_: Callable[[], bool],
        check: Callable[[], None] = lambda: None,
        look: float = _LOOK_SECONDS,
    ) -> None:
        until = now() + round(seconds * 1e6)
        while while_() and now() < until:
            check()
            await asyncio.sleep(look)
