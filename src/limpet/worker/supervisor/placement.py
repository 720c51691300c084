"""Which executor gets which job, and how many jobs there is room for."""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from limpet import log
from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.supervisor.executors import Executors
from limpet.worker.supervisor.ledger import Hold
from limpet.worker.wire.frames import LANE, LOOP
from limpet.worker.wire.plan import Plan

# How many suspects of the loop may run alone at a time, each in a lane of its own.
_SUSPECT_LANES = 2
# How many files of the supervisor's an executor takes, and how many it needs besides.
_FILES_EACH, _OTHER_FILES = 5, 80
# Between two tries to start an executor: doubled each time, up to the longest.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 10.0


class FreePlaces(NamedTuple):
    """How full a pool is: the jobs that are in it, and how many more could start at once.

    `ahead`: whether an executor would take more than it can start.
    """

    used: int
    free: int
    ahead: bool


class Placement:
    """The jobs that wait for an executor, and the executors that there may be."""

    def __init__(self, crew: Executors, plan: Plan, files: int) -> None:
        """`files`: how many the supervisor may have open."""
        self._crew = crew
        self.wanted_lanes = _lanes_of(plan)
        lanes = min(self.wanted_lanes, max(1, (files - _OTHER_FILES) // _FILES_EACH))
        self.most = {LOOP: plan.settings.async_jobs, LANE: lanes}
        self.waiting: dict[str, deque[Hold]] = {LOOP: deque(), LANE: deque()}
        self.may_start = True  # executors can be started just now
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    def place(self) -> None:
        """Give what waits to whoever has room."""
        if waiting := self.waiting[LOOP]:
            loops = self._executors(LOOP)
            executor = next((each for each in loops if each.takes_more), None)
            if executor is None and self._may_start_loop(loops):
                executor = self._crew.start(LOOP)
            if executor is not None:
                _hand_over(executor, waiting, len(waiting))
        if waiting := self.waiting[LANE]:
            self._place_in_lanes(waiting)

    def pause_starts(self, error: str, resumed: Callable[[], None]) -> None:
        """An executor could not start: no other is started for a while; those that run go on."""
        if not self.may_start:
            return  # it was started together with one that has said so
        log.emit("executor_failed", error=error, seconds=self._pause_seconds)
        self.may_start = False
        asyncio.get_running_loop().call_later(self._pause_seconds, self._resume_starts, resumed)
        self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)

    def _resume_starts(self, resumed: Callable[[], None]) -> None:
        self.may_start = True
        self.place()
        resumed()

    def has_started(self) -> None:
        """An executor has started: the next failure is the first again."""
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    def _place_in_lanes(self, waiting: deque[Hold]) -> None:
        lanes = self._executors(LANE)
        open_ = [each for each in lanes if each.takes_more]
        idle = sum(1 for each in open_ if not each.holds)
        for _ in range(min(self._startable(lanes), len(waiting) - idle)):
            open_.append(self._crew.start(LANE))
        if not open_:
            return
        # Evenly, the emptiest first: a job must not wait behind another while a lane is idle.
        open_.sort(key=lambda each: len(each.holds))
        level = -(-(len(waiting) + sum(len(each.holds) for each in open_)) // len(open_))
        for executor in open_:
            if count := min(max(level - len(executor.holds), 0), len(waiting)):
                _hand_over(executor, waiting, count)

    def give_alone(self, hold: Hold) -> None:
        """Give a suspect of the loop to a lane of its own."""
        free = [each for each in self._crew.of_kind(LANE) if each.for_suspect and not each.holds]
        executor = next((each for each in free if each.takes_more), None) or self._crew.start(LANE)
        executor.for_suspect = True
        executor.give([hold])

    # -- room

    def room(self, pool: str) -> FreePlaces:
        """How many jobs a pool has, and can have: the executors that are there and take jobs, or
        have one, and those that may be started.
        """
        executors = self._executors(pool)
        open_ = any(each.takes_more for each in executors)
        if pool == LANE:
            usable = sum(1 for each in executors if each.takes_more or each.holds)
            places = usable + self._startable(executors)
        else:
            places = self.most[LOOP] if open_ or self._may_start_loop(executors) else 0
        everyone = self._crew.executors.values()
        given = sum(len(each.holds) for each in everyone if each.pool == pool)
        used = given + len(self.waiting[pool])
        return FreePlaces(used, places - used, open_)

    def idle(self, pool: str) -> int:
        """How many executors of a pool have nothing to do."""
        return sum(1 for each in self._executors(pool) if each.takes_more and not each.holds)

    def suspect_room(self) -> int:
        """How many suspects of the loop can run alone now, each in a lane started for it."""
        if not self.may_start:
            return 0
        busy = sum(1 for each in self._crew.of_kind(LANE) if each.for_suspect and each.holds)
        return max(0, _SUSPECT_LANES - busy)

    def _startable(self, lanes: list[Executor]) -> int:
        alive = sum(1 for each in lanes if each.is_alive)
        return max(0, self.most[LANE] - alive) if self.may_start else 0

    def _may_start_loop(self, loops: list[Executor]) -> bool:
        return self.may_start and not any(each.is_alive and not each.retiring for each in loops)

    def _executors(self, kind: str) -> list[Executor]:
        return [each for each in self._crew.of_kind(kind) if not each.for_suspect]


def _lanes_of(plan: Plan) -> int:
    """How many lanes there may be: as told, or enough for the queues' own limits, or the cores."""
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
