"""Exchanges with the store: sends outcomes and claims jobs, one exchange in flight at a time.

It claims no more jobs than can start soon: as many as there are free places, and about 50 ms of
work by the measured throughput.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from limpet import log
from limpet.domain.permit import Gate, PassedOver
from limpet.domain.session import Standing
from limpet.storage.contract.answers import Exchanged
from limpet.storage.contract.store import ANY_QUEUE, CHUNK, Pool, Want
from limpet.worker.supervisor.demand import Demand
from limpet.worker.supervisor.dispatcher import Dispatcher
from limpet.worker.supervisor.heartbeat import Heartbeat
from limpet.worker.supervisor.placement import Placement
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.services import Services
from limpet.worker.wire.frames import LOOP

_AHEAD_SECONDS = 0.05
# A ring may be missed, and a job that is committed in the user's own transaction rings no bell.
_SLOW_POLL_SECONDS = 0.5
# A job that a rate, a hold or a breaker keeps back is claimed when it may be due, with at least
# this pause. After claims in vain, since other workers were faster or a clock is ahead, the pause
# doubles up to the second value.
_SOONEST_SECONDS, _SOONEST_IN_VAIN_SECONDS = 0.01, 0.05
# A worker that stops when there is nothing to do waits for jobs that become due this soon.
_WORTH_WAITING_SECONDS = 1.0
# While jobs end by the thousand, an exchange waits this long to take more outcomes along.
_GATHER_SECONDS = 0.002
_MOST_GATHERED = 250


class Claimer:
    """Exchanges with the store whenever there are outcomes to send, or places for more jobs."""

    def __init__(
        self,
        scope: SessionScope,
        placement: Placement,
        services: Services,
        heart: Heartbeat,
        dispatcher: Dispatcher,
        demand: Demand,
    ) -> None:
        self._session = scope.session
        self._plan = scope.plan
        self._line = scope.line
        self._ledger = scope.ledger
        self._placement = placement
        self._services = services
        self._heart = heart
        self._dispatcher = dispatcher
        self._demand = demand
        self._digests: dict[str, str] = {}
        self._gate: Callable[[], Gate | None] = lambda: None
        self._claiming = False
        self._declared: frozenset[str] = frozenset()
        self._bounded = self._declared
        self._next_at: int | None = None
        self._in_vain = 0
        self._idle_claims = 0
        self._too_heavy: tuple[str, ...] = ()
        self._quiet = False
        self.in_flight = False
        self.exchanges = 0

    @property
    def found_nothing(self) -> bool:
        """Whether two claims in a row found nothing to do."""
        return self._idle_claims > 1 or not self._digests

    @property
    def too_heavy(self) -> tuple[str, ...]:
        """Tasks that are too heavy for this host, and of which a job is ready."""
        return self._too_heavy

    def begin(
        self,
        digests: dict[str, str],
        bounded: Iterable[str] = (),
        gate: Callable[[], Gate | None] = lambda: None,
    ) -> None:
        """Claim from now on.

        - `digests`: for each pool the digest of the tasks that it claims.
        - `bounded`: queues with limits that the app declares; see `bound`.
        - `gate`: returns what the host can carry, None where no task has a weight.
        """
        self._gate = gate
        self._digests = digests
        self._bounded = self._declared = frozenset(bounded)
        self._claiming = True
        self._demand.wake()

    def bound(self, queues: Iterable[str]) -> None:
        """Set the queues that have limits in the cluster, beside those that the app declares.

        No job of these queues is claimed ahead: while it waits here, other workers' jobs could not
        begin, and a job that is handed back has used up the rate in vain.
        """
        self._bounded = self._declared.union(queues)

    def stop_claiming(self) -> None:
        """Claim no more jobs; outcomes are still sent."""
        self._claiming = False
        self._demand.wake()

    def exchange_soon(self) -> None:
        """There are outcomes to send."""
        self._demand.wake()

    async def run(self) -> None:
        """Exchange whenever there is a reason to, and give the claimed jobs to the dispatcher."""
        while True:
            await self._idle()
            while self._has_reason():
                if 0 < self._ledger.outcomes_waiting < self._worth_gathering():
                    await asyncio.sleep(_GATHER_SECONDS)
                await self._exchange()

    async def _idle(self) -> None:
        """Wait for a reason to exchange.

        While there are free places, an exchange stands by, which the store's bell sets off.
        """
        if self._has_reason():
            return
        want = self._want()
        arguments = (self._session, self.exchanges + 1, (), want, ())
        standing_by = self._line.stand_by(*arguments, begins=self._begins) if want else None
        if standing_by is not None:
            standing_by.answer.add_done_callback(lambda _: self._demand.wake())
        # Not `wait_for`, which makes a task for each wait: every pick-up comes through here.
        poll = asyncio.get_running_loop().call_later(self._pause_seconds(), self._poll)
        try:
            await self._demand.is_there.wait()
        finally:
            poll.cancel()
            has_begun = not self._line.withdraw()
        self._demand.is_there.clear()
        if standing_by is not None and has_begun:
            try:
                answer = await self._line.exchange(*arguments, first=standing_by)
            finally:
                self.in_flight = False
            await self._take_answer(answer, want)

    def _pause_seconds(self) -> float:
        """How many seconds to wait for a ring before an exchange is made without one."""
        left_seconds = self._seconds_left()
        if left_seconds is None:
            return _SLOW_POLL_SECONDS
        soonest_seconds = min(_SOONEST_SECONDS * (1 << self._in_vain), _SOONEST_IN_VAIN_SECONDS)
        return min(_SLOW_POLL_SECONDS, max(soonest_seconds, left_seconds))

    def _poll(self) -> None:
        """No bell has rung: claim all the same, now or as soon as there are free places."""
        self._next_at = None
        self._demand.rang()

    def _seconds_left(self) -> float | None:
        """Seconds by the wall clock until a job that was kept back may be due; None if none is."""
        return None if self._next_at is None else self._next_at / 1e6 - time.time()

    def _begins(self) -> None:
        """The exchange that stood by is about to be made; called in its thread."""
        self.in_flight = True
        self.exchanges += 1

    def _worth_gathering(self) -> int:
        """How many outcomes are worth a short wait, by how fast jobs end now."""
        rate = sum(pool.per_second for pool in self._demand.throughput.values())
        return min(int(rate * _GATHER_SECONDS * 5), _MOST_GATHERED)

    def _has_reason(self) -> bool:
        if self._ledger.outcomes_waiting:
            return True
        return self._demand.may_have_more and self._want() is not None

    async def _exchange(self) -> None:
        self.in_flight = True
        try:
            await self._services.report()
            want = self._want()
            begun = self._ledger.next_begun()
            batch = self._ledger.next_batch()
            self.exchanges += 1
            if want is not None:
                # Before the claim: a job whose bell rings from now on may come too late for it.
                self._demand.may_have_more = False
            arguments = (self._session, self.exchanges, batch, want, begun)
            observed = self._ledger.observer.take()
            answer = await self._line.exchange(*arguments, *((observed,) if observed else ()))
        finally:
            self.in_flight = False
        self._ledger.acknowledged()
        self._services.acknowledged(batch)
        await self._take_answer(answer, want)

    async def _take_answer(self, answer: Exchanged, want: Want | None) -> None:
        self._ledger.answered_exchanges = self.exchanges
        for refused in answer.rejected:
            if refused.answer == "lost":
                log.emit("job_refused", job=refused.lease.job, session=self._session)
        if answer.standing is Standing.PAST:
            self._heart.beat_soon()  # by the store's clock the lease has run out
        self._note_quiet(answer.quiet)
        if answer.unfinished:
            self._services.promote_now()
        if want is not None:
            self._next_at = answer.next_at
            in_vain = answer.next_at is not None and not answer.claimed
            self._in_vain = min(self._in_vain + 1, 8) if in_vain else 0
        if answer.standing is Standing.LIVE and not answer.quiet and want is not None:
            left_seconds = self._seconds_left()
            more_soon = answer.unfinished or (
                left_seconds is not None and left_seconds < _WORTH_WAITING_SECONDS
            )
            waits = answer.passed_over is PassedOver.FOR_NOW
            nothing = not (answer.claimed or self._ledger.holds or more_soon or waits)
            wanted_all = len(want.pools) == len(self._digests)
            self._idle_claims = self._idle_claims + 1 if nothing and wanted_all else 0
            self._note_too_heavy(answer, want.gate)
        if answer.claimed:
            self._demand.may_have_more = True
            await self._dispatcher.give(self._ledger.take(answer.claimed))

    def _note_too_heavy(self, answer: Exchanged, gate: Gate | None) -> None:
        self._too_heavy = ()
        if gate is not None and answer.passed_over is PassedOver.FOR_EVER:
            tasks = gate.weights.items()
            self._too_heavy = tuple(
                sorted(task for task, weight in tasks if not gate.room.carries(weight))
            )

    def _note_quiet(self, quiet: bool) -> None:
        if quiet and not self._quiet:
            log.emit("store_moved", session=self._session)
        self._quiet = quiet

    # -- what to claim

    def _want(self) -> Want | None:
        if not self._claiming:
            return None
        pools = []
        gate = self._gate()
        for kind, digest in self._digests.items():
            used, free, takes_ahead = self._placement.free_places(kind)
            rate = self._demand.throughput[kind]
            rate.measure(busy=used > 0)
            ahead = int(rate.per_second * _AHEAD_SECONDS) if takes_ahead else 0
            total = min(free + ahead, CHUNK)
            # Do not claim one by one while much is under way: a batch costs hardly more than one.
            if total <= 0 or (total < ahead // 4 and used > 0):
                continue
            slots = self._slots(max(0, free), total, weighed=gate is not None)
            if slots:
                suspects = self._placement.suspect_places() if kind == LOOP else max(0, free)
                pools.append(Pool(digest, slots, total, suspects))
        return Want(tuple(pools), gate) if pools else None

    def _slots(self, free: int, total: int, *, weighed: bool) -> Mapping[str, int]:
        """Queue → how many jobs to claim.

        None is claimed ahead of a queue with limits in the cluster. Of a queue with a limit in this
        worker none is claimed ahead on a host with a gate, where a job that waits has a permit.
        """
        if not self._plan.settings.queues:
            bounded = dict.fromkeys(self._bounded, free) if free < total else {}
            return {ANY_QUEUE: total, **bounded}
        slots = {}
        for queue, limit in self._plan.settings.queues.items():
            most = free if queue in self._bounded else total
            if limit is not None:
                ahead = queue not in self._bounded and not weighed
                wanted = self._placement.queues.wanted(queue, limit, ahead=ahead)
                most = min(total if ahead else free, wanted)
            if most > 0:
                slots[queue] = most
        return slots
