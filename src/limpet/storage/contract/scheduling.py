"""The verbs of schedules. There is no leader: every worker fires what is due, and the store sees to
it that each tick is fired once.

A tick is fired by whoever finds `next_at` as it was when the schedule was read, and sets the next
one in the same step in which the jobs are handed in. Whoever comes second finds another `next_at`,
and does nothing. One that dies before has fired nothing, and after it everything.
"""

from collections.abc import Sequence
from typing import Protocol

from limpet.domain.job import NewJob
from limpet.domain.schedule import Schedule
from limpet.storage.contract.answers import Ticked


class ScheduleVerbs(Protocol):
    """What puts schedules and fires their ticks."""

    def put_schedule(self, schedule: Schedule, /) -> bool:
        """(nothing) → a schedule that ticks at `next_at` first; or what there is is changed to what
        this one says. Then it stays paused if it was, and keeps `next_at` where the moments are the
        same (`Timing.text`). Atomic; a repeat changes nothing. True if something changed.
        """
        ...

    def remove_schedule(self, schedule: str, /) -> bool:
        """A schedule → (nothing); the jobs that it handed in stay. Atomic. False if there was none,
        as for a repeat.
        """
        ...

    def pause_schedule(
        self, schedule: str, /, paused: bool = True, next_at: int | None = None
    ) -> bool:
        """A schedule that is paused is not fired. One that was, and is not any more, ticks at
        `next_at` next, unless that is None or earlier than what it had. Atomic; a repeat changes
        nothing. False if there is none.
        """
        ...

    def schedules(self) -> tuple[Schedule, ...]:
        """Every schedule, by id. Reads only."""
        ...

    def schedule(self, schedule: str, /) -> Schedule | None:
        """One schedule, or None. Reads only."""
        ...

    def due_schedules(self, until: int) -> tuple[tuple[Schedule, ...], int | None]:
        """Those that are not paused and tick at `until` or before, the earliest first, at most
        1,000; and the first tick after `until`, or None. Reads only.
        """
        ...

    def tick(self, seen: Schedule, jobs: Sequence[NewJob], next_at: int) -> Ticked:
        """(nothing) → ready or scheduled, as `enqueue` does it, for the jobs of one or more ticks;
        the next one is at `next_at`, which is later. Atomic, at most 1,000. Done only where the
        schedule is as it was `seen`; a repeat is thus answered `late`. One that may not overlap,
        and whose last job still waits or runs, is passed over: `next_at` moves on, nothing is
        handed in. A job that its queue does not take in, or whose `unique` is held, is passed over
        too.
        """
        ...

    def trigger(self, seen: Schedule, job: NewJob) -> Ticked:
        """As `tick`, now and on a person's word: `next_at` stays, one that is paused is fired too,
        and one that was changed meanwhile. Atomic; a repeat of the job's id is one job. `gone` if
        there is no such schedule.
        """
        ...
