"""Fires the ticks of schedules; every worker tries, and the store lets each tick be fired once."""

from typing import NamedTuple

from limpet import log
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.errors import InvalidOption, PayloadInvalid
from limpet.domain.job import NewJob
from limpet.domain.schedule import CatchUp, Schedule
from limpet.maintenance.cron import last_until, next_after
from limpet.storage.contract.scheduling import ScheduleVerbs
from limpet.storage.contract.store import CHUNK

# A tick counts as missed after a quarter of the time to the next one, within these bounds.
_LEAST_LATE_US, _MOST_LATE_US = 1_000_000, 60_000_000
# The next tick of a cron line without any day left: the greatest number that every store can write.
NEVER = 2**53 - 1


class Step(NamedTuple):
    """The jobs of the ticks that are due, and when the next tick is."""

    jobs: tuple[NewJob, ...]
    next_at: int


def step_of(schedule: Schedule, now: int) -> Step | None:
    """The due ticks of a schedule, a thousand at most; None if none is due yet.

    Only the schedule and the time decide, so that all workers find the same. A clock that was set
    back makes no tick due again: ticks before `next_at` are over.
    """
    if schedule.due_at(schedule.next_at) > now:
        return None
    if schedule.catch_up is CatchUp.ALL:
        return _all_due(schedule, now)
    last = _last_due(schedule, now)
    following = _after(schedule, last)
    if schedule.catch_up is CatchUp.NONE and _is_missed(schedule, last, following, now):
        return Step((), following)
    return Step((schedule.job_of(last),), following)


def _all_due(schedule: Schedule, now: int) -> Step:
    jobs: list[NewJob] = []
    tick = schedule.next_at
    while len(jobs) < CHUNK and schedule.due_at(tick) <= now:
        jobs.append(schedule.job_of(tick))
        tick = _after(schedule, tick)
    return Step(tuple(jobs), tick)


def _last_due(schedule: Schedule, now: int) -> int:
    first = schedule.next_at
    last = last_until(schedule.timing, now, first)
    while last > first and schedule.due_at(last) > now:
        last = last_until(schedule.timing, last - 1, first)
    return last


def _after(schedule: Schedule, tick: int) -> int:
    following = next_after(schedule.timing, tick, since=tick)
    return NEVER if following is None else following


def _is_missed(schedule: Schedule, tick: int, following: int, now: int) -> bool:
    grace_us = min(max((following - tick) // 4, _LEAST_LATE_US), _MOST_LATE_US)
    return now - schedule.due_at(tick) > grace_us


class Scheduler:
    """Fires what is due; `run` returns when to run it again."""

    def __init__(self, store: ScheduleVerbs, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._unreadable: set[tuple[str, int]] = set()

    def run(self) -> int | None:
        """Fire all due ticks, a thousand of each schedule at most.

        The answer is the wall time of the next tick, which is now if more are due, or None.
        """
        now = self._clock.wall()
        due, later = self._store.due_schedules(now)
        coming = [] if later is None else [later]
        for schedule in due:
            if not schedule.is_reserved:
                coming.append(self._fire(schedule, now))
        if len(due) == CHUNK:
            coming.append(now)
        return min(coming, default=None)

    def _fire(self, schedule: Schedule, now: int) -> int:
        try:
            step = step_of(schedule, now)
        except Exception as error:
            # For example a time zone that this machine does not know: others may know it.
            return self._passed_over(schedule, error)
        if step is None:
            return schedule.due_at(schedule.next_at)
        try:
            answer = self._store.tick(schedule, step.jobs, step.next_at)
        except (InvalidOption, PayloadInvalid) as error:
            return self._passed_over(schedule, error)
        match answer.outcome:
            case "passed":
                log.emit("tick_passed", schedule=schedule.id, job=answer.last_job)
            case "fired" if not step.jobs:
                log.emit("ticks_skipped", schedule=schedule.id)
            case _:
                pass
        return step.next_at if answer.next_at is None else answer.next_at

    def _passed_over(self, schedule: Schedule, error: Exception) -> int:
        """Skip a schedule that cannot be fired, so that the others are fired; log it once."""
        seen = schedule.id, schedule.changed_at
        if seen not in self._unreadable:
            log.emit("schedule_unreadable", schedule=schedule.id, error=error)
        self._unreadable.add(seen)
        return NEVER
