"""How an app declares schedules: `@app.every`, `@app.cron`, `@app.scanner`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from limpet.app.schedules import Declarations, Plan, Schedules, Vanished, plan_of, reporting
from limpet.app.task import Task
from limpet.client.client import Client
from limpet.domain.duration import Duration
from limpet.domain.errors import InvalidOption
from limpet.domain.retry import Retry
from limpet.domain.scan import ScanReport
from limpet.domain.schedule import Schedule
from limpet.payload.context import Context

P = ParamSpec("P")
R = TypeVar("R")


class Timetable(ABC):
    """The part of an app that declares schedules.

    `vanished_schedules`: what a worker does with those that the app declared before and that are
    in the code of no worker any more.
    """

    payload_limit: int
    vanished_schedules: Vanished
    _declarations: Declarations

    @property
    @abstractmethod
    def client(self) -> Client:
        """What hands in jobs and follows them."""

    @abstractmethod
    def _registered(
        self, function: Callable[..., Any], name: str | None, options: Mapping[str, Any]
    ) -> Task[Any, Any]: ...

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store: put, pause, trigger and remove them at run time."""
        return Schedules(self.client, self._declarations.found)

    def every(
        self,
        period: Duration,
        /,
        *,
        id: str | None = None,  # noqa: A002 - the word users know
        args: Mapping[str, Any] | None = None,
        jitter: Duration = 0,
        catch_up: str = "one",
        overlap: bool = True,
    ) -> "Declare":
        """Hand in a job each time that the period has passed: `@app.every("15m")` above
        `@app.task(…)`, or above a plain function, which it makes a task.
        """
        plan = plan_of(every=period, jitter=jitter, catch_up=catch_up, overlap=overlap)
        return Declare(self, id, args, plan)

    def cron(
        self,
        line: str,
        /,
        *,
        tz: str | None = None,
        id: str | None = None,  # noqa: A002 - the word users know
        args: Mapping[str, Any] | None = None,
        jitter: Duration = 0,
        catch_up: str = "one",
        overlap: bool = True,
    ) -> "Declare":
        """Hand in a job at the times of a cron line: `@app.cron("0 3 * * *", tz="Europe/Berlin")`
        above `@app.task(…)`, or above a plain function. Without `tz` it is UTC.
        """
        plan = plan_of(cron=line, tz=tz, jitter=jitter, catch_up=catch_up, overlap=overlap)
        return Declare(self, id, args, plan)

    def scanner(
        self,
        *,
        every: Duration | None = None,
        cron: str | None = None,
        tz: str | None = None,
        jitter: Duration = 0,
        name: str | None = None,
        **options: Any,
    ) -> "Callable[[Callable[..., ScanReport | Coroutine[Any, Any, ScanReport]]], Task[[], ScanReport]]":  # noqa: E501
        """A check that runs once for all workers, one attempt each time, never beside the one
        before, and returns a `ScanReport`: `@app.scanner(every="15m")` above a plain function. The
        options are those of a task.
        """
        if "retry" in options:
            raise InvalidOption("a scanner has one attempt, and comes again; it takes no retry=.")
        plan = plan_of(every=every, cron=cron, tz=tz, jitter=jitter, overlap=False)

        def declare(function: Callable[..., Any]) -> Task[[], ScanReport]:
            if isinstance(function, Task) or not callable(function):
                raise InvalidOption(
                    "@app.scanner is for a plain function, which it makes a task; give it the "
                    "task's options, and leave @app.task out."
                )
            once = {**options, "retry": Retry(attempts=1)}
            task = self._registered(reporting(function), name, once)
            self._declarations.add(None, task, None, plan)
            return task

        return declare

    def declared_schedules(self) -> list[Schedule]:
        """What the code declares, for a worker to put; raises where arguments do not fit."""
        now = self.client.clock.wall()
        return [
            each.plan.schedule(id_, each.task.call(**each.args), now)
            for id_, each in sorted(self._declarations.found.items())
        ]


class Declare:
    """The decorator that `app.every(…)` and `app.cron(…)` return."""

    def __init__(
        self, app: Timetable, id_: str | None, args: Mapping[str, Any] | None, plan: Plan
    ) -> None:
        self._app = app
        self._id = id_
        self._args = args
        self._plan = plan

    @overload
    def __call__(self, what: Task[P, R]) -> Task[P, R]: ...

    @overload
    def __call__(
        self, what: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]
    ) -> Task[P, R]: ...

    @overload
    def __call__(self, what: Callable[Concatenate[Context, P], R]) -> Task[P, R]: ...

    @overload
    def __call__(self, what: Callable[P, Coroutine[Any, Any, R]]) -> Task[P, R]: ...

    @overload
    def __call__(self, what: Callable[P, R]) -> Task[P, R]: ...

    def __call__(self, what: Callable[..., Any]) -> Any:
        if isinstance(what, Task):
            if what.home is not self._app:
                raise InvalidOption(f"task {what.name!r} belongs to another app.")
            task = what
        else:
            task = self._app._registered(what, None, {})
        self._app._declarations.add(self._id, task, self._args, self._plan)
        return task
