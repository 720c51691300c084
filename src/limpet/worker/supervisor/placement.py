"""Which executor gets which job, and for how many more jobs there are places."""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from limpet import log
from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.supervisor.executors import Executors
from limpet.worker.supervisor.ledger import Hold, Ledger
from limpet.worker.supervisor.queue_places import QueuePlaces
from limpet.worker.wire.frames import LANE, LOOP
from limpet.worker.wire.plan import Plan

# How many suspects of the loop may run alone at a time, each in a lane of its own.
_SUSPECT_LANES = 2
# How many open files of the supervisor each executor takes, and how many the rest of it takes.
_FILES_EACH, _OTHER_FILES = 5, 80
# Between two tries to start an executor: doubled each time, up to the longest.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 10.0


class FreePlaces(NamedTuple):
    """How full a pool is.

    `used`: the jobs that it has. `free`: how many more could start at once. `ahead`: whether an
    executor would take more jobs than it can start.
    """

    used: int
    free: int
    ahead: bool


class Placement:
    """The jobs that wait for an executor, and how many executors may run."""

    def __init__(self, executors: Executors, plan: Plan, files: int, ledger: Ledger) -> None:
        """`files`: how many files the supervisor may have open."""
        self._executors = executors
        self.wanted_lanes = _lanes_of(plan)
        lanes = min(self.wanted_lanes, max(1, (files - _OTHER_FILES) // _FILES_EACH))
        self.most = {LOOP: plan.settings.async_jobs, LANE: lanes}
        self.waiting: dict[str, deque[Hold]] = {LOOP: deque(), LANE: deque()}
        self.queues = QueuePlaces(plan.settings.queues, ledger)
        self.may_start = True  # executors can be started just now
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    def place(self) -> None:
        """Give waiting jobs to executors that can take them."""
        if waiting := self.waiting[LOOP]:
            loops = self._of_pool(LOOP)
            executor = next((executor for executor in loops if executor.takes_more), None)
            if executor is None and self._may_start_loop(loops):
                executor = self._executors.start(LOOP)
            if executor is not None:
                _hand_over(executor, waiting, len(waiting))
        if waiting := self.waiting[LANE]:
            self._place_in_lanes(waiting)

    def pause_starts(self, error: str, resumed: Callable[[], None]) -> None:
        """An executor could not start: start no other for a while. Those that run go on."""
        if not self.may_start:
            return  # another executor, started together with this one, has failed before it
        log.emit("executor_failed", error=error, seconds=self._pause_seconds)
        self.may_start = False
        asyncio.get_running_loop().call_later(self._pause_seconds, self._resume_starts, resumed)
        self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)

    def _resume_starts(self, resumed: Callable[[], None]) -> None:
        self.may_start = True
        self.place()
        resumed()

    def has_started(self) -> None:
        """An executor has started: the pause after the next failure is the shortest again."""
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    def _place_in_lanes(self, waiting: deque[Hold]) -> None:
        lanes = self._of_pool(LANE)
        open_ = [executor for executor in lanes if executor.takes_more]
        idle = sum(1 for executor in open_ if not executor.holds)
        for _ in range(min(self._startable(lanes), len(waiting) - idle)):
            open_.append(self._executors.start(LANE))
        if not open_:
            return
        # Fill the emptiest lanes first: no job may wait behind another while a lane is idle.
        open_.sort(key=lambda executor: len(executor.holds))
        level = -(-(len(waiting) + sum(len(executor.holds) for executor in open_)) // len(open_))
        for executor in open_:
            if count := min(max(level - len(executor.holds), 0), len(waiting)):
                _hand_over(executor, waiting, count)

    def give_alone(self, hold: Hold) -> None:
        """Give a suspect of the loop to a lane of its own."""
        free = [
            executor
            for executor in self._executors.of_kind(LANE)
            if executor.for_suspect and not executor.holds
        ]
        executor = next((executor for executor in free if executor.takes_more), None)
        executor = executor or self._executors.start(LANE)
        executor.for_suspect = True
        executor.give([hold])

    # -- places

    def free_places(self, pool: str) -> FreePlaces:
        """The places of a pool that are used and free.

        The executors that take jobs or have one count, and those that may still be started.
        """
        executors = self._of_pool(pool)
        open_ = any(executor.takes_more for executor in executors)
        if pool == LANE:
            usable = sum(1 for executor in executors if executor.takes_more or executor.holds)
            places = usable + self._startable(executors)
        else:
            places = self.most[LOOP] if open_ or self._may_start_loop(executors) else 0
        everyone = self._executors.by_number.values()
        given = sum(len(executor.holds) for executor in everyone if executor.pool == pool)
        used = given + len(self.waiting[pool])
        return FreePlaces(used, places - used, open_)

    def idle(self, pool: str) -> int:
        """How many executors of a pool have nothing to do."""
        return sum(
            1 for executor in self._of_pool(pool) if executor.takes_more and not executor.holds
        )

    def suspect_places(self) -> int:
        """How many suspects of the loop can begin now, each alone in a lane started for it."""
        if not self.may_start:
            return 0
        busy = sum(
            1
            for executor in self._executors.of_kind(LANE)
            if executor.for_suspect and executor.holds
        )
        return max(0, _SUSPECT_LANES - busy - self.queues.waiting_suspects)

    def _startable(self, lanes: list[Executor]) -> int:
        alive = sum(1 for executor in lanes if executor.is_alive)
        return max(0, self.most[LANE] - alive) if self.may_start else 0

    def _may_start_loop(self, loops: list[Executor]) -> bool:
        return self.may_start and not any(
            executor.is_alive and not executor.retiring for executor in loops
        )

    def _of_pool(self, kind: str) -> list[Executor]:
        return [executor for executor in self._executors.of_kind(kind) if not executor.for_suspect]


def _lanes_of(plan: Plan) -> int:
    """How many lanes may run: as `--lanes` sets it, else what the queues of the worker allow.

    A queue without a limit allows one lane for each core, and so do all queues together.
    """
    if plan.settings.lanes is not None:
        return plan.settings.lanes
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if not plan.settings.queues:
        return cores
    return sum(cores if limit is None else limit for limit in plan.settings.queues.values())


def _hand_over(executor: Executor, waiting: deque[Hold], count: int) -> None:
    executor.give([waiting.popleft() for _ in range(count)])
