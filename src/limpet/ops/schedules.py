"""Lists schedules, and does what a person does to one: pause, resume, remove, trigger."""

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from limpet.domain.clock import Clock, SystemClock
from limpet.domain.duration import spoken_microseconds
from limpet.domain.errors import InvalidOption, MoveRefused, QueueDraining, ScheduleNotFound
from limpet.domain.ids import IdSource
from limpet.domain.job import masked
from limpet.domain.schedule import Schedule
from limpet.maintenance.cron import next_after, zone_of
from limpet.ops.job_answer import shown
from limpet.ops.record import iso
from limpet.storage.contract.scheduling import ScheduleVerbs

RUNS = 5


class ScheduleAnswer(Struct, frozen=True, kw_only=True):
    """A schedule: when it ticks, and what became of its ticks so far.

    `every` and `jitter` are durations in words. `declared`: the app whose code declares it. `fired`
    ticks became a job, `passed` ones did not.
    """

    schedule: str
    task: str
    queue: str
    args: Any
    every: str | None
    cron: str | None
    tz: str
    jitter: str | None
    catch_up: str
    overlap: bool
    paused: bool
    declared: str | None
    next_at: str | None
    last_at: str | None
    last_job: str | None
    fired: int
    passed: int


class ScheduleDetail(ScheduleAnswer, frozen=True, kw_only=True):
    """A schedule with its next runs, in its own time zone."""

    next_runs: tuple[str, ...]


def find_schedule(store: ScheduleVerbs, id_: str) -> Schedule:
    """One schedule; raises `ScheduleNotFound`."""
    found = store.schedule(id_)
    if found is None:
        raise ScheduleNotFound(id_)
    return found


def list_schedules(store: ScheduleVerbs) -> list[ScheduleAnswer]:
    """Every schedule, by id."""
    return [_schedule_answer(schedule) for schedule in store.schedules()]


def show_schedule(
    store: ScheduleVerbs, id_: str, runs: int = RUNS, clock: Clock | None = None
) -> ScheduleDetail:
    """One schedule with its next runs; raises `ScheduleNotFound`."""
    schedule = find_schedule(store, id_)
    coming = tuple(run.isoformat() for run in next_runs(schedule, runs, clock))
    return ScheduleDetail(**asdict(_schedule_answer(schedule)), next_runs=coming)


def pause_schedule(store: ScheduleVerbs, id_: str) -> None:
    """Stop the ticks of a schedule until it is resumed; raises `ScheduleNotFound`."""
    if not store.pause_schedule(id_):
        raise ScheduleNotFound(id_)


def resume_schedule(store: ScheduleVerbs, id_: str, clock: Clock | None = None) -> None:
    """Let a schedule tick again, from its next tick on; raises `ScheduleNotFound`.

    Ticks during the pause do not count as missed, whatever its `catch_up`: they were not wanted.
    """
    schedule = find_schedule(store, id_)
    now = (clock or SystemClock()).wall()
    ahead = next_after(schedule.timing, now, since=schedule.next_at)
    if not store.pause_schedule(id_, False, ahead):
        raise ScheduleNotFound(id_)


def remove_schedule(store: ScheduleVerbs, id_: str) -> None:
    """Remove a schedule; its jobs stay. Raises `ScheduleNotFound`."""
    if not store.remove_schedule(id_):
        raise ScheduleNotFound(id_)


def trigger_schedule(store: ScheduleVerbs, id_: str, clock: Clock | None = None) -> str:
    """Enqueue one job of a schedule now and return the job's id. The ticks stay as they are.

    Raises `MoveRefused` if the schedule may not overlap and its last job is not finished.
    """
    schedule = find_schedule(store, id_)
    if schedule.is_reserved:
        raise InvalidOption(
            f"schedule {id_} is run by workers themselves, without a job, and cannot be triggered; "
            f"run `limpet fsck --repair`."
        )
    time = clock or SystemClock()
    job = schedule.job_at(IdSource(time).new(), time.wall())
    answer = store.trigger(schedule, job)
    if answer.outcome == "gone":
        raise ScheduleNotFound(id_)
    if answer.outcome == "passed":
        raise MoveRefused(
            f"schedule {id_!r} does not overlap, and its job {answer.last_job} is not finished; "
            f"nothing was enqueued. Wait for it, or cancel it with `limpet job cancel "
            f"{answer.last_job}`."
        )
    receipt = answer.receipts[0]
    if receipt.outcome == "draining":
        raise QueueDraining(job.queue)
    return receipt.job


def next_runs(schedule: Schedule, number: int = RUNS, clock: Clock | None = None) -> list[datetime]:
    """When a schedule next enqueues jobs, jitter included, in its own time zone; none if paused.

    Missed ticks that are about to be caught up are left out.
    """
    if schedule.paused:
        return []
    now = (clock or SystemClock()).wall()
    zone = zone_of(schedule.timing.tz)
    tick: int | None = schedule.next_at
    if tick is not None and schedule.due_at(tick) < now:
        tick = next_after(schedule.timing, now, since=tick)
    found: list[datetime] = []
    while tick is not None and len(found) < number:
        due = datetime.fromtimestamp(schedule.due_at(tick) / 1e6, UTC)
        found.append(due.astimezone(zone))
        tick = next_after(schedule.timing, tick, since=tick)
    return found


def _schedule_answer(schedule: Schedule) -> ScheduleAnswer:
    job, timing = schedule.job, schedule.timing
    return ScheduleAnswer(
        schedule=schedule.id,
        task=job.task,
        queue=job.queue,
        args=masked(shown(job.args), job.secrets),
        every=None if timing.every is None else spoken_microseconds(timing.every),
        cron=timing.cron,
        tz=timing.tz,
        jitter=spoken_microseconds(timing.jitter) if timing.jitter else None,
        catch_up=str(schedule.catch_up),
        overlap=schedule.overlap,
        paused=schedule.paused,
        declared=schedule.declared or None,
        next_at=iso(schedule.next_at),
        last_at=iso(schedule.last_at),
        last_job=schedule.last_job,
        fired=schedule.fired,
        passed=schedule.passed,
    )
