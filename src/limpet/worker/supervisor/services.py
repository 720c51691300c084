"""What a supervisor does beside running jobs: report, promote, schedule, sweep, prune, scan."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any

from limpet import log
from limpet.domain.errors import LimpetError
from limpet.domain.transition import RetryAt, Settlement, SnoozeUntil
from limpet.maintenance.declared import Declarer
from limpet.maintenance.promoter import Promoter
from limpet.maintenance.pruner import Pruner
from limpet.maintenance.scanner import Scanner
from limpet.maintenance.scheduler import Scheduler
from limpet.maintenance.sweeper import Sweeper
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.session_parts import SessionParts
from limpet.worker.wire.catalog import Catalog

_REPORT_SECONDS = 0.1
_PROMOTE_SECONDS = 0.5
_SWEEP_SECONDS = 0.4
_PRUNE_SECONDS = 60.0
_SCHEDULE_SECONDS = 0.5
_SCAN_SECONDS = 60.0
_DECLARE_SECONDS = 60.0
# How long a limit that was set at run time may be unknown here; the store keeps to it at once.
_BOUNDS_SECONDS = 2.0


class Services:
    """The loops of one session; each goes on after a failure."""

    def __init__(self, scope: SessionScope, parts: SessionParts) -> None:
        self._parts = parts
        self._failing: set[Callable[[], Any]] = set()
        self._line = scope.line
        self._session = scope.session
        self._ledger = scope.ledger
        self._promote = asyncio.Event()
        self._reporting = asyncio.Lock()

    def all(
        self,
        catalog: Catalog,
        sweeper: Sweeper,
        declarer: Declarer,
        bound: Callable[[list[str]], None],
    ) -> tuple[Coroutine[Any, Any, None], ...]:
        """Every loop, to be run for as long as the session lives.

        `bound`: hears which queues have limits, whoever has set them.
        """
        store = self._line.store
        return (
            self._report_forever(),
            self._promote_forever(Promoter(store)),
            self._prove_forever(sweeper),
            self._expire_forever(sweeper),
            self._prune_forever(Pruner(store, *catalog.retentions())),
            self._schedule_forever(Scheduler(store)),
            self._scan_forever(Scanner(store, catalog.url)),
            self._declare_forever(declarer),
            self._learn_bounds_forever(bound),
        )

    async def report(self) -> None:
        """Tell the store what running jobs have said; when this returns, all of it is told."""
        async with self._reporting:
            await self._report()

    async def _report(self) -> None:
        while self._ledger.reports:
            if said := self._ledger.next_reports():
                await self._line.ask("report", self._session, said)

    def told(self, settlements: list[Settlement]) -> None:
        """Some outcomes are kept; one that comes back later may be due before the next look."""
        if any(isinstance(each, RetryAt | SnoozeUntil) for each in settlements):
            self._promote.set()

    def promote_now(self) -> None:
        """Something was settled that leaves work for the promoter."""
        self._promote.set()

    async def _report_forever(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            await self.report()

    async def _promote_forever(self, promoter: Promoter) -> None:
        while True:
            due = await self._do("promoter", promoter.run)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._promote.wait(), _pause(due, _PROMOTE_SECONDS))
            self._promote.clear()

    async def _schedule_forever(self, scheduler: Scheduler) -> None:
        while True:
            due = await self._do("scheduler", scheduler.run)
            await asyncio.sleep(_pause(due, _SCHEDULE_SECONDS))

    async def _scan_forever(self, scanner: Scanner) -> None:
        while True:
            await self._do("scanner", scanner.run)
            await asyncio.sleep(_SCAN_SECONDS)

    async def _declare_forever(self, declarer: Declarer) -> None:
        while True:
            await asyncio.sleep(_DECLARE_SECONDS)
            await self._do("schedules", declarer.run)

    async def _learn_bounds_forever(self, bound: Callable[[list[str]], None]) -> None:
        while True:
            await asyncio.sleep(_BOUNDS_SECONDS)
            queues = await self._do("limits", self._line.store.queues)
            if queues is not None:
                bound([each.name for each in queues if each.rules.is_bounded])

    async def _prove_forever(self, sweeper: Sweeper) -> None:
        """Until the session is over. A loop of its own: nothing that holds up a proof, or that is
        wrong with a row, may hold up the end of leases.
        """
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            if self._parts.are_over():
                return
            await self._do("proofs", sweeper.prove)

    async def _expire_forever(self, sweeper: Sweeper) -> None:
        """Until the session is over: then it would sweep its own before it has told everything."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            if self._parts.are_over():
                return
            if await self._do("sweeper", sweeper.expire) is None:
                sweeper.lost_sight()

    async def _prune_forever(self, pruner: Pruner) -> None:
        while True:
            await asyncio.sleep(_PRUNE_SECONDS)
            await self._do("pruner", pruner.run)

    async def _do(self, service: str, work: Callable[[], Any]) -> Any:
        """One round of a service; None if the store would not have it, which is said once.

        While the store does not answer it is left to the renewals to ask.
        """
        if self._line.failing_since is not None:
            return None
        try:
            answer = await self._line.do(work)
        except LimpetError as error:
            if work not in self._failing:
                log.emit("maintenance_failed", service=service, error=error, session=self._session)
            self._failing.add(work)
            return None
        self._failing.discard(work)
        return answer


def _pause(due: int | None, most: float) -> float:
    """Seconds until that wall time, and no more than so many."""
    return most if due is None else min(most, max(0.0, (due - time.time_ns() // 1000) / 1e6))
