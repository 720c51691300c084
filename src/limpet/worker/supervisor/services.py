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
# How long a worker may not know of a limit that was set at run time. The store keeps to it at once.
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

        `bound`: called with the queues that have limits, also with those set at run time.
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
        """Send what running jobs have reported to the store; on return, all of it was sent."""
        async with self._reporting:
            await self._report()

    async def _report(self) -> None:
        while self._ledger.reports:
            if reports := self._ledger.next_reports():
                await self._line.request("report", self._session, reports)

    def acknowledged(self, settlements: list[Settlement]) -> None:
        """The store has kept these outcomes; a job that comes back later may be due very soon."""
        if any(isinstance(settlement, RetryAt | SnoozeUntil) for settlement in settlements):
            self._promote.set()

    def promote_now(self) -> None:
        """A settlement has left work for the promoter."""
        self._promote.set()

    async def _report_forever(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            await self.report()

    async def _promote_forever(self, promoter: Promoter) -> None:
        while True:
            due_at = await self._do("promoter", promoter.run)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(
                    self._promote.wait(), _pause_seconds(due_at, _PROMOTE_SECONDS)
                )
            self._promote.clear()

    async def _schedule_forever(self, scheduler: Scheduler) -> None:
        while True:
            due_at = await self._do("scheduler", scheduler.run)
            await asyncio.sleep(_pause_seconds(due_at, _SCHEDULE_SECONDS))

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
                bound([queue.name for queue in queues if queue.rules.is_bounded])

    async def _prove_forever(self, sweeper: Sweeper) -> None:
        """Look for proofs of death, until the session is over.

        A loop of its own, so that a slow proof or a bad row does not hold up the end of leases.
        """
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            if self._parts.are_over():
                return
            await self._do("proofs", sweeper.prove)

    async def _expire_forever(self, sweeper: Sweeper) -> None:
        """End expired sessions, until this session is over.

        After that it would sweep its own session, before all outcomes were sent to the store.
        """
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
        """One round of a service; None if it failed, which is logged once.

        While the store does not answer, nothing is tried: the renewals will find it answering.
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


def _pause_seconds(due_at: int | None, most_seconds: float) -> float:
    """Seconds until the wall time `due_at`, at most `most_seconds`."""
    return (
        most_seconds
        if due_at is None
        else min(most_seconds, max(0.0, (due_at - time.time_ns() // 1000) / 1e6))
    )
