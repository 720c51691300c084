"""The verbs of schedules. There is no leader: every worker fires due ticks, and the store makes
sure that each tick is fired once.

The worker that finds `next_at` unchanged since it read the schedule fires the tick: it hands in the
jobs and sets the next `next_at` in one step. A second worker finds another `next_at` and does
nothing. A worker that dies before that step has fired nothing; after it, everything.
"""

from collections.abc import Sequence
from typing import Protocol

from limpet.domain.job import NewJob
from limpet.domain.schedule import Schedule
from limpet.storage.contract.answers import Ticked


class ScheduleVerbs(Protocol):
    """The verbs that put schedules and fire their ticks."""

    def put_schedule(self, schedule: Schedule, /) -> bool:
        """(nothing) → a schedule whose first tick is at `next_at`; or an existing schedule gets
        this definition. Then it stays paused if it was, and keeps its `next_at` if its moments
        stay the same (`Timing.text`). Atomic; a repeat changes nothing. True if something changed.
        """
        ...

    def remove_schedule(self, schedule: str, /) -> bool:
        """A schedule → (nothing); the jobs that it handed in stay. Atomic. False if there was no
        such schedule, so also for a repeat.
        """
        ...

    def pause_schedule(
        self, schedule: str, /, paused: bool = True, next_at: int | None = None
    ) -> bool:
        """Pause a schedule, so that it is not fired, or resume it. A resumed schedule ticks at
        `next_at` next, unless that is None or earlier than its own. Atomic; a repeat changes
        nothing. False if there is no such schedule.
        """
        ...

    def schedules(self) -> tuple[Schedule, ...]:
        """Every schedule, by id. Reads only."""
        ...

    def schedule(self, schedule: str, /) -> Schedule | None:
        """One schedule, or None. Reads only."""
        ...

    def due_schedules(self, until: int) -> tuple[tuple[Schedule, ...], int | None]:
        """The schedules that are not paused and tick at `until` or before, earliest first, at most
        1,000; and the first tick after `until`, or None. Reads only.
        """
        ...

    def tick(self, seen: Schedule, jobs: Sequence[NewJob], next_at: int) -> Ticked:
        """(nothing) → ready or scheduled, as in `enqueue`, for the jobs of one or more ticks; the
        next tick is at `next_at`, which is later. Atomic, at most 1,000. Done only if the schedule
        is still as it was `seen`, so a repeat is answered `late`. The tick of a schedule that may
        not overlap, and whose last job still waits or runs, is passed over: `next_at` moves on,
        nothing is handed in. A job that its queue does not take in, or whose `unique` is held, is
        passed over too.
        """
        ...

    def trigger(self, seen: Schedule, job: NewJob) -> Ticked:
        """Like `tick`, now and by a person's decision: `next_at` stays, and a schedule is fired
        even if it is paused or was changed meanwhile. Atomic; a repeat of the job's id is one job.
        `gone` if there is no such schedule.
        """
        ...
