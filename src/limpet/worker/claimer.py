"""The exchange: tells outcomes and takes jobs, one exchange in flight at a time.

Never more is claimed than can start soon: the free places, and about 50 ms of work as measured.
"""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from limpet import log
from limpet.domain.lease import Lease
from limpet.domain.session import Standing
from limpet.domain.transition import Settlement
from limpet.storage.answers import Exchanged
from limpet.storage.base import ANY_QUEUE, CHUNK, Pool, Want
from limpet.worker.frames import LANE, LOOP
from limpet.worker.holds import Hold, Ledger
from limpet.worker.page import now
from limpet.worker.plan import Plan

AHEAD_SECONDS = 0.05
# A ring may be missed, and a job that was committed with the user's own transaction rings no bell.
_SLOW_POLL_SECONDS = 0.5
_RATE_MEMORY_SECONDS = 0.25
# While jobs end by the thousand, an exchange waits this long for more of them to tell.
_GATHER_SECONDS = 0.002
_MOST_GATHERED = 250


class Rate:
    """How many jobs a second a pool finishes, while it has any."""

    def __init__(self) -> None:
        self.per_second = 0.0
        self._finished = 0
        self._since = now()

    def finished(self, count: int) -> None:
        self._finished += count

    def measure(self, busy: bool) -> None:
        """Take the time since the last look into account."""
        passed = (now() - self._since) / 1e6
        if passed < 0.002:
            return
        if busy or self._finished:
            weight = 1 - math.exp(-passed / _RATE_MEMORY_SECONDS)
            self.per_second += weight * (self._finished / passed - self.per_second)
        self._finished = 0
        self._since = now()


class Claimer:
    """Exchanges with the store until it is told to stop claiming and everything is told."""

    def __init__(
        self,
        session: str,
        plan: Plan,
        ledger: Ledger,
        ask: Callable[..., Awaitable[Any]],
        dispatch: Callable[[list[Hold]], Awaitable[None]],
        suspect_room: Callable[[], int],
        places: Callable[[str, int], int],
        takes_ahead: Callable[[str], bool],
        before: Callable[[], Awaitable[None]],
        told: Callable[[list[Settlement]], None],
    ) -> None:
        """`places`: how many of a kind's places can be used now. `takes_ahead`: whether an
        executor of that kind would take more than it can start. `before`: done before each
        exchange. `told`: hears what the store has taken.
        """
        self._places = places
        self._takes_ahead = takes_ahead
        self._before = before
        self._told = told
        self._session = session
        self._plan = plan
        self._ledger = ledger
        self._ask = ask
        self._dispatch = dispatch
        self._suspect_room = suspect_room
        self._seq = 0
        self._wake = asyncio.Event()
        self.claiming = False
        self.may_have_more = True
        self.in_flight = False
        self.exchanges = 0
        self.digests: dict[str, str] = {}
        self.used = {LOOP: 0, LANE: 0}
        self.rates = {LOOP: Rate(), LANE: Rate()}
        self.lanes = lanes_of(plan)
        self.idle_claims = 0

    @property
    def found_nothing(self) -> bool:
        """Whether there was nothing to do, twice in a row."""
        return self.idle_claims > 1 or not self.digests

    def wake(self) -> None:
        """There is something to tell, or room to take more."""
        self._wake.set()

    def rang(self) -> None:
        """Jobs may have become ready."""
        self.may_have_more = True
        self._wake.set()

    async def run(self) -> None:
        """Exchange whenever there is a reason to."""
        loop = asyncio.get_running_loop()
        while True:
            # Not `wait_for`, which makes a task of each wait: this is the way of every pick-up.
            poll = loop.call_later(_SLOW_POLL_SECONDS, self.rang)
            await self._wake.wait()
            poll.cancel()
            self._wake.clear()
            while self._has_reason():
                if 0 < self._ledger.news < self._worth_telling():
                    await asyncio.sleep(_GATHER_SECONDS)
                await self._exchange()

    def _worth_telling(self) -> int:
        """How many outcomes to gather first, where they come so fast that it takes no time."""
        rate = sum(each.per_second for each in self.rates.values())
        return min(int(rate * _GATHER_SECONDS * 5), _MOST_GATHERED)

    def _has_reason(self) -> bool:
        if self._ledger.news:
            return True
        return self.claiming and self.may_have_more and self._want() is not None

    async def _exchange(self) -> None:
        await self._before()
        want = self._want() if self.claiming else None
        begun = self.untold()
        batch = self._ledger.next_batch()
        self._seq += 1
        self.in_flight = True
        self.exchanges += 1
        answer: Exchanged = await self._ask(
            "exchange", self._session, self._seq, batch, want, begun
        )
        self.in_flight = False
        self._ledger.told()
        self._told(batch)
        for refused in answer.rejected:
            if refused.answer == "lost":
                log.say("job_refused", job=refused.lease.job, session=self._session)
        if answer.standing is Standing.LIVE and want is not None:
            self.may_have_more = bool(answer.claimed)
            nothing = not answer.claimed and not self._ledger.holds
            asked_all = len(want.pools) == len(self.digests)
            self.idle_claims = self.idle_claims + 1 if nothing and asked_all else 0
        if answer.claimed:
            await self._dispatch(self._ledger.take(answer.claimed))

    def untold(self) -> list[Lease]:
        """The jobs that have begun and of which the store does not know it."""
        fresh = [hold for hold in self._ledger.holds.values() if hold.begun and not hold.told]
        for hold in fresh:
            hold.told = True
        return [hold.lease for hold in fresh]

    # -- what to ask for

    def _want(self) -> Want | None:
        pools = []
        for kind, most in ((LOOP, self._plan.async_jobs), (LANE, self.lanes)):
            if kind not in self.digests:
                continue
            rate = self.rates[kind]
            rate.measure(busy=self.used[kind] > 0)
            free = self._places(kind, most) - self.used[kind]
            ahead = int(rate.per_second * AHEAD_SECONDS) if self._takes_ahead(kind) else 0
            room = min(free + ahead, CHUNK)
            # Not one by one while much is under way: a batch costs hardly more than one job.
            if room <= 0 or (room < ahead // 4 and self.used[kind] > 0):
                continue
            slots = self._slots(free, room)
            if slots:
                suspects = self._suspect_room() if kind == LOOP else max(0, free)
                pools.append(Pool(self.digests[kind], slots, room, suspects))
        return Want(tuple(pools)) if pools else None

    def _slots(self, free: int, room: int) -> Mapping[str, int]:
        """Queue → how many; a queue with a limit of its own is never claimed ahead."""
        if not self._plan.queues:
            return {ANY_QUEUE: room}
        slots = {}
        for queue, limit in self._plan.queues.items():
            most = room if limit is None else min(free, limit - self._ledger.per_queue[queue])
            if most > 0:
                slots[queue] = most
        return slots


def lanes_of(plan: Plan) -> int:
    """How many lanes there may be: as told, or enough for the queues' own limits, or the cores."""
    if plan.lanes is not None:
        return plan.lanes
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if not plan.queues:
        return cores
    return sum(cores if limit is None else limit for limit in plan.queues.values())
