"""Fires the ticks of schedules; every worker does, and the store lets each tick be fired once."""

from typing import NamedTuple

from limpet import log
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.errors import InvalidOption, PayloadInvalid
from limpet.domain.job import NewJob
from limpet.domain.schedule import CatchUp, Schedule
from limpet.maintenance.cron import last_until, next_after
from limpet.storage.contract.scheduling import ScheduleVerbs
from limpet.storage.contract.store import CHUNK

# A tick is on time for a quarter of the time to the next one, within these.
_LEAST_LATE, _MOST_LATE = 1_000_000, 60_000_000
# Where a cron line has no day any more; as far away as every store can write it.
NEVER = 2**53 - 1


class Step(NamedTuple):
    """What to hand in for ticks that are due, and when the next one is."""

    jobs: tuple[NewJob, ...]
    next_at: int


def step_of(schedule: Schedule, now: int) -> Step | None:
    """What is due of a schedule, a thousand ticks at most; None if nothing is yet.

    Only the schedule and the time decide, so that everybody who looks finds the same. A clock that
    was set back makes no tick due again: those before `next_at` are over.
    """
    if schedule.due_at(schedule.next_at) > now:
        return None
    if schedule.catch_up is CatchUp.ALL:
        return _each(schedule, now)
    last = _last_due(schedule, now)
    following = _after(schedule, last)
    if schedule.catch_up is CatchUp.NONE and _is_missed(schedule, last, following, now):
        return Step((), following)
    return Step((schedule.job_of(last),), following)


def _each(schedule: Schedule, now: int) -> Step:
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
    patience = min(max((following - tick) // 4, _LEAST_LATE), _MOST_LATE)
    return now - schedule.due_at(tick) > patience


class Scheduler:
    """Fires what is due; `run` says when to come again."""

    def __init__(self, store: ScheduleVerbs, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._unreadable: set[tuple[str, int]] = set()

    def run(self) -> int | None:
        """Fire what is due, a thousand ticks of a schedule at most; the answer is the wall time of
        the next, which is now where there is more, or None.
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
            # A time zone that this machine does not know, say: others may know it.
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
        """One schedule that cannot be fired must not keep the others from it."""
        seen = schedule.id, schedule.changed_at
        if seen not in self._unreadable:
            log.emit("schedule_unreadable", schedule=schedule.id, error=error)
        self._unreadable.add(seen)
        return NEVER
