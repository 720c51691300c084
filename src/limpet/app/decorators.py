"""What `@app.task(…)`, `@app.every(…)`, `@app.cron(…)` and `@app.scanner(…)` return."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args, overload

from limpet.app.options import JobOptions
from limpet.app.registry import AppRegistry
from limpet.app.schedules import SchedulePlan, reporting
from limpet.app.task import AsyncTask, Home, SyncTask, Task, calls_a_coroutine
from limpet.app.typed_options import OF_A_TASK, Isolation, ScannerOptions, TaskOptions
from limpet.domain.checks import choice
from limpet.domain.errors import InvalidOption
from limpet.domain.queue import checked_name
from limpet.domain.retry import Retry
from limpet.domain.scan import ScanReport
from limpet.domain.weight import gives_way, task_weight
from limpet.payload.context import Context
from limpet.payload.signature import Signature
from limpet.payload.upgrades import checked_version

P = ParamSpec("P")
R = TypeVar("R")
AnyTask = TypeVar("AnyTask", bound=Task[Any, Any])


class MakeTask:
    """Makes a function a task of an app, with these options."""

    def __init__(self, home: Home, registry: AppRegistry, options: TaskOptions) -> None:
        self._home = home
        self._registry = registry
        self._weight = task_weight(options.get("weight"), options.get("heavy", False))
        self._gives_way = gives_way(options.get("on_pressure"), self._weight)
        self._isolation: Isolation = choice(
            options.get("isolation", "auto"), "isolation", get_args(Isolation)
        )
        self._name = options.get("name")
        self._version = options.get("version", 1)
        self._breaker = options.get("breaker")
        of_jobs = {name: value for name, value in options.items() if name not in OF_A_TASK}
        self._options = JobOptions().changed(of_jobs, OF_A_TASK)

    # A leading context is not an argument of the job; the worker passes it. An async function fits
    # the overloads of a plain function, too; the first overload that fits counts.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]
    ) -> AsyncTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> SyncTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, function: Callable[P, R]) -> SyncTask[P, R]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        if isinstance(function, Task):
            raise InvalidOption(
                f"{function.name!r} is a task already; write @app.every(…) and @app.cron(…) above "
                f"@app.task(…), not below it."
            )
        if not callable(function):
            raise InvalidOption("@app.task is for functions; options go by name, as in queue=….")
        written = self._name or getattr(function, "__name__", None)
        if written is None:
            raise InvalidOption(
                f'{function!r} has no name of its own; give it one: app.task(name="…")(…).'
            )
        name = checked_name(written, "task")
        kind = AsyncTask if calls_a_coroutine(function) else SyncTask
        task: Task[Any, Any] = kind(
            name,
            function,
            self._options,
            Signature(name, function),
            self._home,
            isolation=self._isolation,
            version=checked_version(name, self._version),
            weight=self._weight,
            gives_way=self._gives_way,
        )
        self._registry.add(task, self._breaker)
        return task


class DeclareSchedule:
    """Declares a schedule of a task, or of a plain function, which it makes a task."""

    def __init__(
        self,
        home: Home,
        registry: AppRegistry,
        id_: str | None,
        args: Mapping[str, Any] | None,
        plan: SchedulePlan,
    ) -> None:
        self._home = home
        self._registry = registry
        self._id = id_
        self._args = args
        self._plan = plan

    @overload
    def __call__(self, what: AnyTask) -> AnyTask: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, what: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]
    ) -> AsyncTask[P, R]: ...

    @overload
    def __call__(self, what: Callable[Concatenate[Context, P], R]) -> SyncTask[P, R]: ...

    @overload
    def __call__(self, what: Callable[P, Coroutine[Any, Any, R]]) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, what: Callable[P, R]) -> SyncTask[P, R]: ...

    def __call__(self, what: Callable[..., Any]) -> Any:
        if isinstance(what, Task):
            if what.home is not self._home:
                raise InvalidOption(f"task {what.name!r} belongs to another app.")
            task = what
        else:
            task = MakeTask(self._home, self._registry, {})(what)
        self._registry.declarations.add(self._id, task, self._args, self._plan)
        return task


class DeclareScanner:
    """Makes a plain function a task of one attempt that a schedule runs."""

    def __init__(
        self, home: Home, registry: AppRegistry, plan: SchedulePlan, options: ScannerOptions
    ) -> None:
        if "retry" in options:
            raise InvalidOption("a scanner has one attempt, and comes again; it takes no retry=.")
        self._registry = registry
        self._plan = plan
        self._make = MakeTask(home, registry, {**options, "retry": Retry(attempts=1)})

    @overload
    def __call__(
        self, function: Callable[..., Coroutine[Any, Any, ScanReport]]
    ) -> AsyncTask[[], ScanReport]: ...

    @overload
    def __call__(self, function: Callable[..., ScanReport]) -> SyncTask[[], ScanReport]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        if isinstance(function, Task) or not callable(function):
            raise InvalidOption(
                "@app.scanner is for a plain function, which it makes a task; give it the "
                "task's options, and leave @app.task out."
            )
        task = self._make(reporting(function))
        self._registry.declarations.add(None, task, None, self._plan)
        return task
