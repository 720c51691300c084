"""A schedule: a job that is enqueued again and again, at moments that are known beforehand.

Times are wall time in microseconds. A **tick** is one such moment. The id of its job is made of the
schedule's id and the tick's own time, not of the time at which somebody fired it: a tick is one job
however often it is fired.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from limpet.domain.checks import choice
from limpet.domain.errors import InvalidOption
from limpet.domain.ids import derived_id
from limpet.domain.job import NewJob
from limpet.domain.queue import checked_name

# Begins the ids of Limpet's own schedules; a user's id may not begin so.
RESERVED = "limpet:"


class CatchUp(StrEnum):
    """What happens to ticks whose time passed while no worker ran.

    `none`: they are skipped. `one`: one job for all of them. `all`: a job for each.
    """

    NONE = "none"
    ONE = "one"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When a schedule ticks: each time `every` has passed, or by the line `cron` in time zone `tz`.

    `every` and `jitter` are microseconds. `jitter`: each tick is fired later by an amount of its
    own, up to this much.
    """

    every: int | None = None
    cron: str | None = None
    tz: str = "UTC"
    jitter: int = 0

    @property
    def text(self) -> str:
        """The moments as one text, without the jitter, which does not change them."""
        return f"every {self.every}" if self.cron is None else f"{self.cron} in {self.tz}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule as the store has it.

    `job`: what each tick enqueues; it has no id, and its times count from the tick. `overlap`:
    whether a tick enqueues its job while the job of an earlier tick is not finished; otherwise the
    tick is passed over. `declared`: the app whose code declares the schedule, empty for one that
    was put at run time.

    `next_at`: the next tick. `last_at`, `last_job`: the last tick that enqueued a job, and that
    job. `fired`, `passed`: how many jobs were enqueued, and how many were not. `changed_at` grows
    with every change of the definition.
    """

    id: str
    job: NewJob
    timing: Timing
    next_at: int
    catch_up: CatchUp = CatchUp.ONE
    overlap: bool = True
    declared: str = ""
    paused: bool = False
    last_at: int | None = None
    last_job: str | None = None
    fired: int = 0
    passed: int = 0
    changed_at: int = 0

    @property
    def is_reserved(self) -> bool:
        """Whether it is Limpet's own: workers fire it in their own way, without a job."""
        return self.id.startswith(RESERVED)

    def due_at(self, tick: int) -> int:
        """When a tick is to be fired: at its time, and up to the jitter later."""
        return tick + _chance(f"{self.id} {tick}") % (self.timing.jitter + 1)

    def job_of(self, tick: int) -> NewJob:
        """The job of a tick, the same whoever fires it."""
        return self.job_at(derived_id(tick // 1000, f"{self.id} {tick}"), tick)

    def job_at(self, id_: str, at: int) -> NewJob:
        """A job of this schedule as if a tick were at the moment `at`."""
        job = self.job
        return job._replace(
            id=id_,
            # Not before the store's clock reaches the tick: this machine's clock may be fast.
            scheduled_for=at + (job.scheduled_for or 0),
            expires_at=None if job.expires_at is None else at + job.expires_at,
            deadline_at=None if job.deadline_at is None else at + job.deadline_at,
        )

    def tick_of(self, job: NewJob) -> int:
        """The tick from which `job_at` made this job."""
        return (job.scheduled_for or 0) - (self.job.scheduled_for or 0)


def checked_schedule(id_: str) -> str:
    """Check the id of a schedule that a user puts, or refuse it with a sentence."""
    checked_name(id_, "schedule")
    if id_.startswith(RESERVED):
        raise InvalidOption(
            f"schedule {id_!r}: names that begin with {RESERVED!r} are Limpet's own; take another."
        )
    return id_


def catch_up_of(value: str) -> CatchUp:
    """Read a `catch_up`, or refuse it with a sentence."""
    return choice(value, "catch_up", CatchUp)


def _chance(seed: str) -> int:
    return int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest())
