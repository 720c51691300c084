"""Schedules of an app: declared in its code, or put at run time."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from limpet.app.task import Call, Task
from limpet.client.client import Client
from limpet.domain.checks import flag
from limpet.domain.duration import Duration, duration, microseconds
from limpet.domain.errors import InvalidOption
from limpet.domain.job import NewJob
from limpet.domain.scan import ScanReport
from limpet.domain.schedule import CatchUp, Schedule, Timing, catch_up_of, checked_schedule
from limpet.maintenance.cron import next_after, timing_of
from limpet.ops import schedules as ops

CatchUpWord = Literal["none", "one", "all"]
"""What happens to ticks that were missed because no worker ran; see `CatchUp`."""

Vanished = Literal["remove", "keep"]
"""What a worker does with schedules that the app declared before and that no worker's code has any
more.
"""


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """When a schedule ticks, and what happens to a tick that is missed or overlaps the last job."""

    timing: Timing
    catch_up: CatchUp
    overlap: bool

    def schedule(self, id_: str, call: Call, now: int) -> Schedule:
        """The schedule as the store takes it; its first tick is the next one after `now`."""
        first = next_after(self.timing, now)
        assert first is not None  # checked when the timing was read
        return Schedule(
            id=id_,
            job=_template(call),
            timing=self.timing,
            next_at=first,
            catch_up=self.catch_up,
            overlap=self.overlap,
        )


def plan_of(
    *,
    every: Duration | None = None,
    cron: str | None = None,
    tz: str | None = None,
    jitter: Duration = 0,
    catch_up: CatchUpWord = "one",
    overlap: bool = True,
) -> SchedulePlan:
    """Read the options of a schedule; raises `InvalidOption` for wrong ones."""
    missed = catch_up_of(catch_up)
    flag(overlap, "overlap")
    if missed is CatchUp.ALL and not overlap:
        raise InvalidOption(
            'catch_up="all" hands in every missed tick at once, which overlap=False forbids; write '
            'catch_up="one", or allow the overlap and give the task a key.'
        )
    return SchedulePlan(timing_of(every=every, cron=cron, tz=tz, jitter=jitter), missed, overlap)


def _template(call: Call) -> NewJob:
    """The job of a schedule: without an id, with times that count from the tick."""
    task, packed = call
    if task.options.within is not None:
        raise InvalidOption(
            f"{task.name}: a schedule hands in jobs by itself and takes no within=."
        )
    (job,) = task.new_jobs([packed])
    return job._replace(
        id="",
        scheduled_for=_after_tick(task, "delay"),
        expires_at=_after_tick(task, "expires"),
        deadline_at=_after_tick(task, "deadline"),
    )


def _after_tick(task: Task[Any, Any], name: str) -> int | None:
    value = getattr(task.options, name)
    if value is None:
        return None
    if isinstance(value, datetime):
        raise InvalidOption(
            f"{task.name}: {name} is a single moment, but a schedule ticks again and again; write "
            f'how long after each tick, as in {name}="10m".'
        )
    return microseconds(duration(value, what=name))


class Schedules:
    """The schedules of a store, as `app.schedules`; a schedule put here stays until removed."""

    def __init__(self, client: Client, declared: Mapping[str, object]) -> None:
        self._client = client
        self._declared = declared

    def upsert(
        self,
        id: str,  # noqa: A002 - the word users know
        what: Call | Task[Any, Any],
        /,
        *,
        args: Mapping[str, Any] | None = None,
        every: Duration | None = None,
        cron: str | None = None,
        tz: str | None = None,
        jitter: Duration = 0,
        catch_up: CatchUpWord = "one",
        overlap: bool = True,
    ) -> Schedule:
        """Put a schedule, or replace it: `what` is `task.call(…)`, or a task with `args` by name.

        Putting the same schedule again changes nothing; an unchanged timing keeps the next tick.
        """
        if checked_schedule(id) in self._declared:
            raise InvalidOption(
                f"schedule {id!r} is declared in the code of this app; change it there, or take "
                f"another id."
            )
        plan = plan_of(
            every=every, cron=cron, tz=tz, jitter=jitter, catch_up=catch_up, overlap=overlap
        )
        schedule = plan.schedule(id, _call(what, args), self._client.clock.wall())
        self._client.store.put_schedule(schedule)
        return ops.find_schedule(self._client.store, id)

    async def aupsert(
        self,
        id: str,  # noqa: A002
        what: Call | Task[Any, Any],
        /,
        *,
        args: Mapping[str, Any] | None = None,
        every: Duration | None = None,
        cron: str | None = None,
        tz: str | None = None,
        jitter: Duration = 0,
        catch_up: CatchUpWord = "one",
        overlap: bool = True,
    ) -> Schedule:
        """As `upsert`, without blocking the event loop."""
        return await asyncio.to_thread(
            self.upsert, id, what, args=args, every=every, cron=cron, tz=tz, jitter=jitter,
            catch_up=catch_up, overlap=overlap,
        )  # fmt: skip

    def remove(self, id: str) -> None:  # noqa: A002
        """Remove a schedule; the jobs that it handed in stay. Raises `ScheduleNotFound`."""
        ops.remove_schedule(self._client.store, id)

    async def aremove(self, id: str) -> None:  # noqa: A002
        """As `remove`, without blocking the event loop."""
        await asyncio.to_thread(self.remove, id)

    def pause(self, id: str) -> None:  # noqa: A002
        """Stop the ticks of a schedule until `resume`; raises `ScheduleNotFound`."""
        ops.pause_schedule(self._client.store, id)

    async def apause(self, id: str) -> None:  # noqa: A002
        """As `pause`, without blocking the event loop."""
        await asyncio.to_thread(self.pause, id)

    def resume(self, id: str) -> None:  # noqa: A002
        """Let a schedule tick again, from its next tick on; raises `ScheduleNotFound`."""
        ops.resume_schedule(self._client.store, id, self._client.clock)

    async def aresume(self, id: str) -> None:  # noqa: A002
        """As `resume`, without blocking the event loop."""
        await asyncio.to_thread(self.resume, id)

    def trigger(self, id: str) -> str:  # noqa: A002
        """Hand in a job of the schedule now and return its id; the ticks stay as they are."""
        return ops.trigger_schedule(self._client.store, id, self._client.clock)

    async def atrigger(self, id: str) -> str:  # noqa: A002
        """As `trigger`, without blocking the event loop."""
        return await asyncio.to_thread(self.trigger, id)

    def next_runs(self, id: str, number: int = ops.RUNS) -> list[datetime]:  # noqa: A002
        """The next moments of a schedule, in its own time zone; raises `ScheduleNotFound`."""
        schedule = ops.find_schedule(self._client.store, id)
        return ops.next_runs(schedule, number, self._client.clock)

    async def anext_runs(self, id: str, number: int = ops.RUNS) -> list[datetime]:  # noqa: A002
        """As `next_runs`, without blocking the event loop."""
        return await asyncio.to_thread(self.next_runs, id, number)

    def get(self, id: str) -> Schedule:  # noqa: A002
        """One schedule as the store has it; raises `ScheduleNotFound`."""
        return ops.find_schedule(self._client.store, id)

    async def aget(self, id: str) -> Schedule:  # noqa: A002
        """As `get`, without blocking the event loop."""
        return await asyncio.to_thread(self.get, id)

    # Above `list`, which hides the built-in type of that name from the methods below it.
    async def alist(self) -> list[Schedule]:
        """As `list`, without blocking the event loop."""
        return await asyncio.to_thread(self.list)

    def list(self) -> list[Schedule]:
        """Every schedule of the store, by id."""
        return list(self._client.store.schedules())


def _call(what: object, args: Mapping[str, Any] | None) -> Call:
    if isinstance(what, Call):
        if args is not None:
            raise InvalidOption("args= goes with a task; task.call(…) has its arguments already.")
        return what
    if isinstance(what, Task):
        return what.call(**(args or {}))
    raise InvalidOption(f"{what!r} is not a task; write task.call(…), or the task and args={{…}}.")


class Declared(NamedTuple):
    """A schedule that the code of an app declares."""

    task: Task[Any, Any]
    args: Mapping[str, Any]
    plan: SchedulePlan


class Declarations:
    """The schedules that the code of an app declares, by id."""

    def __init__(self) -> None:
        self.found: dict[str, Declared] = {}

    def add(
        self,
        id_: str | None,
        task: Task[Any, Any],
        args: Mapping[str, Any] | None,
        plan: SchedulePlan,
    ) -> None:
        """Declare a schedule; its default id is the name of its task."""
        name = checked_schedule(id_ if id_ is not None else task.name)
        if name in self.found:
            raise InvalidOption(
                f"there is already a schedule {name!r}; give one of them another name: "
                f'@app.every(…, id="…").'
            )
        self.found[name] = Declared(task, dict(args or {}), plan)


def reporting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a scanner's function: anything but a report as its result raises `TypeError`."""
    name = getattr(function, "__name__", "scanner")

    def checked(report: Any) -> ScanReport:
        if not isinstance(report, ScanReport):
            raise TypeError(
                f"scanner {name!r} returned {type(report).__name__}; return limpet.ScanReport(…)."
            )
        return report

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run(*args: Any, **kwargs: Any) -> ScanReport:
            return checked(await function(*args, **kwargs))

    else:

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> ScanReport:
            return checked(function(*args, **kwargs))

    shown = inspect.signature(function).replace(return_annotation=ScanReport)
    run.__signature__ = shown  # type: ignore[attr-defined]
    return run
