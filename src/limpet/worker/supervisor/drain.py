"""The end of a session: stop claiming, finish until the deadline, stop, confirm, release.

The lease is renewed until the very end.
"""

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

# How long jobs that must stop at the deadline may take before they are killed.
_LAST_GRACE_SECONDS = 0.3
# How long stop hooks may take at the end.
_STOP_HOOKS_SECONDS = 1.0
_LOOK_SECONDS = 0.005
# How often to look while the store does not answer: there is no hurry.
_SLOW_LOOK_SECONDS = 0.05
# How long an exchange may hang before the store gives it up, and a moment to repeat it.
_LONGEST_EXCHANGE_SECONDS = 20.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 2.0


class Drain:
    """Takes one session to its end in order."""

    def __init__(
        self,
        scope: SessionScope,
        parts: SessionParts,
        executors: Executors,
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
        self._executors = executors
        self._dispatcher = dispatcher
        self._claimer = claimer
        self._heart = heart
        self._services = services
        self._released_before = 0

    async def run(self, seconds: float, stop: StopRequest) -> None:
        """Let jobs finish, then stop them; raises if the session is lost meanwhile.

        A second signal means that the user does not want to wait for anything.
        """
        check = self._parts.check
        self._released_before = self._ledger.released
        self._claimer.stop_claiming()
        self._heart.drain()
        self._dispatcher.unstarted.hand_back_all()
        holds = self._ledger.holds
        log.emit("worker_draining", running=len(holds), seconds=seconds, session=self._session)
        await self._wait(seconds, lambda: bool(holds) and stop.signals < 2, check)
        if stop.signals < 2:
            await self._stop_all(check)
        if not holds and stop.signals < 2:
            await self._run_stop_hooks(check)

    @property
    def released(self) -> str:
        """How many jobs were handed back since the drain began, in words."""
        count = self._ledger.released - self._released_before
        return f"{number_of(count, 'job')} {'was' if count == 1 else 'were'}"

    async def release_all(self) -> None:
        """Hand back the jobs that are left, none of which may live any more; end the session."""
        for hold in list(self._ledger.holds.values()):
            self._ledger.settle(hold, at_the_end(hold))
        with contextlib.suppress(SessionOver):
            await self._services.report()
        self._claimer.exchange_soon()
        lost = self._parts.are_over  # then the store accepts no outcome any more
        await self._wait(
            self._plan.settings.lease, lambda: self._ledger.has_unacknowledged and not lost()
        )
        with contextlib.suppress(LimpetError):
            await self._end(Drained())

    async def lose(self, cause: Cause, give_up: Callable[[], bool]) -> bool:
        """Send the outcomes that are known, and the cause by which the other jobs were lost.

        Returns True when the store has it all. Waits while the store does not answer, so that an
        outage costs no job anything, until `give_up` is true.
        """
        self._claimer.stop_claiming()
        pause_seconds = _FIRST_PAUSE_SECONDS
        slow_seconds = _SLOW_LOOK_SECONDS
        while True:
            await self._wait(
                1.0, lambda: self._ledger.has_unacknowledged, look_seconds=slow_seconds
            )
            # When the store answers again, the outcomes go first: after the end of the session
            # the store would refuse them, and the jobs would run again although they are done. An
            # exchange without outcomes may go on hanging: the jobs that it may still claim are
            # taken back with the session.
            await self._wait(
                _LONGEST_EXCHANGE_SECONDS,
                lambda: (
                    self._claimer.in_flight and self._ledger.has_unacknowledged and not give_up()
                ),
                look_seconds=slow_seconds,
            )
            with contextlib.suppress(LimpetError):
                await self._end(cause)
                return True
            if give_up():
                return False
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)

    async def _end(self, cause: Cause) -> None:
        """Mark the session dead and recover the jobs that it still has."""
        store, name = self._line.store, self._plan.name
        await self._line.do(lambda: store.end(self._session, cause))
        await self._line.do(lambda: recover_all(store, self._session, cause, name))

    async def _stop_all(self, check: Callable[[], None]) -> None:
        self._dispatcher.stop_all(Drained(), _LAST_GRACE_SECONDS)
        await self._wait(_LAST_GRACE_SECONDS, lambda: bool(self._ledger.holds), check)

    async def _run_stop_hooks(self, check: Callable[[], None]) -> None:
        """Let executors run their stop hooks."""
        for executor in list(self._executors.by_number.values()):
            executor.end()
        await self._wait(_STOP_HOOKS_SECONDS, lambda: bool(self._executors.by_number), check)

    @staticmethod
    async def _wait(
        seconds: float,
        while_: Callable[[], bool],
        check: Callable[[], None] = lambda: None,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        until = now() + round(seconds * 1e6)
        while while_() and now() < until:
            check()
            await asyncio.sleep(look_seconds)
