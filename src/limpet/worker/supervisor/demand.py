"""The reasons to exchange with the store.

The parts that give jobs to executors and settle them write here, and the claimer reads. So they
need not know the claimer.
"""

import asyncio
import math

from limpet.worker.wire.frames import LANE, LOOP
from limpet.worker.wire.page import now

_MEMORY_SECONDS = 0.25


class Throughput:
    """How many jobs per second a pool finishes while it has jobs: a moving average."""

    def __init__(self) -> None:
        self.per_second = 0.0
        self._finished = 0
        self._since = now()

    def finished(self, count: int) -> None:
        self._finished += count

    def measure(self, busy: bool) -> None:
        """Count the time since the last call in; `busy`: the pool has jobs."""
        passed = (now() - self._since) / 1e6
        if passed < 0.002:
            return
        if busy or self._finished:
            weight = 1 - math.exp(-passed / _MEMORY_SECONDS)
            self.per_second += weight * (self._finished / passed - self.per_second)
        self._finished = 0
        self._since = now()


class Demand:
    """The reasons for the next exchange.

    `is_there`: set while there may be a reason. `may_have_more`: whether the store may have jobs
    that are ready. `throughput`: for each pool.
    """

    def __init__(self) -> None:
        self.is_there = asyncio.Event()
        self.may_have_more = True
        self.throughput = {LOOP: Throughput(), LANE: Throughput()}

    def wake(self) -> None:
        """There are outcomes to send, or free places for more jobs."""
        self.is_there.set()

    def rang(self) -> None:
        """Jobs may have become ready."""
        self.may_have_more = True
        self.is_there.set()

    def finished(self, pool: str, count: int) -> None:
        """A pool has finished jobs."""
        self.throughput[pool].finished(count)
        self.is_there.set()
