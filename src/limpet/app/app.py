"""The app: the user's registry of tasks, bound to a store by URL."""

import atexit
import weakref
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, get_args, overload

from limpet import settings
from limpet.app.breaker import Breaker, Breakers
from limpet.app.hooks import Surroundings
from limpet.app.intake import Intake
from limpet.app.options import JobOptions
from limpet.app.queues import Keys, Queues
from limpet.app.schedules import Declarations, checked_vanished
from limpet.app.task import Isolation, Task
from limpet.app.timetable import Timetable
from limpet.client.client import Client
from limpet.client.handle import JobHandle
from limpet.domain.breaker import BreakerRules
from limpet.domain.clock import Clock
from limpet.domain.duration import Duration
from limpet.domain.errors import InvalidOption, UnknownTask
from limpet.domain.ids import checked_id
from limpet.domain.plural import number_of
from limpet.domain.queue import QueueLimit, QueueRules, checked_name, kept_for
from limpet.domain.state import State
from limpet.domain.weight import Weight, gives_way, task_weight
from limpet.gate.permits.app_permits import Gatehouse
from limpet.payload.context import Context
from limpet.payload.signature import Signature
from limpet.payload.upgrades import checked_version
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

P = ParamSpec("P")
R = TypeVar("R")


class App(Intake, Timetable, Surroundings, Gatehouse):
    """Tasks, and the store where their jobs live.

    `url`: where jobs live; else LIMPET_URL, else `limpet.toml`, else `sqlite:///limpet.db`.
    `queues`: caps, limits and retention of queues. `retention`: how long finished jobs are kept,
    by state. `payload_limit`: the most bytes of arguments. `store_patience`: how long `enqueue`
    goes on trying where the store does not answer, before it raises. `vanished_schedules`: whether
    a worker removes schedules that are no longer declared, or keeps them. Nothing is opened before
    the first use.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        queues: Mapping[str, QueueLimit] | None = None,
        retention: Mapping[str, Duration] | None = None,
        payload_limit: int | None = None,
        store_patience: Duration | None = None,
        vanished_schedules: str = "remove",
        clock: Clock | None = None,
    ) -> None:
        found = settings.load(url=url, payload_limit=payload_limit, store_patience=store_patience)
        self.url = found.url
        self.payload_limit = found.payload_limit
        self._store_patience = found.store_patience
        self.retention = kept_for({**found.retention, **(retention or {})})
        self._clock = clock
        self._shares_writes = True
        self._limits = dict(queues or {})
        for name, limit in self._limits.items():
            checked_name(name)
            if not isinstance(limit, QueueLimit):
                raise InvalidOption(f"queue {name!r} is {limit!r}; write limpet.QueueLimit(…).")
        self._tasks: dict[str, Task[Any, Any]] = {}
        self._declarations = Declarations()
        self.vanished_schedules = checked_vanished(vanished_schedules)
        self._breakers = Breakers()
        Surroundings.__init__(self)
        # Opens nothing, but refuses a URL that cannot be right here and now.
        self._store = open_store(self.url, clock)
        _opened.add(self)

    def __repr__(self) -> str:
        return f"<App {self.url} with {number_of(len(self._tasks), 'task')}>"

    @cached_property
    def client(self) -> Client:
        """What hands in jobs and follows them."""
        return Client(
            self._store,
            self._limits,
            self._clock,
            shares_writes=self._shares_writes,
            store_patience=self._store_patience,
            signature_of=self._signature_of,
        )

    def _signature_of(self, task: str) -> Signature | None:
        found = self._tasks.get(task)
        return None if found is None else found.signature

    # -- tasks

    # A context in front is not among the arguments of a job; the worker gives it.
    @overload
    def task(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> Task[P, R]: ...

    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        isolation: Isolation = "auto",
        version: int = 1,
        breaker: Breaker | str | None = None,
        weight: Weight | None = None,
        heavy: bool = False,
        on_pressure: Literal["release"] | None = None,
        **options: Any,
    ) -> "_Register": ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        isolation: Isolation = "auto",
        version: int = 1,
        breaker: Breaker | str | None = None,
        weight: Weight | None = None,
        heavy: bool = False,
        on_pressure: Literal["release"] | None = None,
        **options: Any,
    ) -> Any:
        """Register a function as a task, with its options: `@app.task(queue="email")`.

        `isolation="process"` runs an async one in a process of its own. `version`: that of its
        arguments, see `Task.upgrade`. `breaker`: what holds its jobs back, or the name of it.
        `weight`: what each of its jobs takes of its host; or `heavy`: one at a time there, and only
        while it is calm. `on_pressure="release"`: hand an attempt back when memory runs short.
        """
        weighs = task_weight(weight, heavy)
        gate = weighs, gives_way(on_pressure, weighs)
        register = _Register(self, name, isolation, version, breaker, gate, options)
        return register if function is None else register(function)

    @property
    def tasks(self) -> Mapping[str, Task[Any, Any]]:
        """The registered tasks, by name."""
        return dict(self._tasks)

    def breaker(self, name: str, **rules: Any) -> Breaker:
        """Define a breaker that tasks share by its name; takes what `limpet.Breaker` takes."""
        made = Breaker(name, **rules)
        self._breakers.define(made)
        return made

    @property
    def breaker_rules(self) -> tuple[BreakerRules, ...]:
        """The breakers that have tasks, as workers declare them."""
        return self._breakers.rules()

    def find(self, name: str) -> Task[Any, Any]:
        """The task of that name; raises `UnknownTask`."""
        task = self._tasks.get(name)
        if task is None:
            known = ", ".join(sorted(self._tasks)) or "none"
            raise UnknownTask(f"there is no task {name!r}; this app has: {known}.")
        return task

    def _add(self, task: Task[Any, Any], breaker: Breaker | str | None = None) -> None:
        other = self._tasks.get(task.name)
        if other is not None:
            where = other.function.__code__ if hasattr(other.function, "__code__") else None
            place = f" ({where.co_filename}:{where.co_firstlineno})" if where else ""
            raise InvalidOption(
                f"there is already a task {task.name!r}{place}; give one of them another name: "
                f'@app.task(name="…").'
            )
        self._breakers.guard(task.name, breaker)
        self._tasks[task.name] = task

    def _registered(
        self, function: Callable[..., Any], name: str | None, options: Mapping[str, Any]
    ) -> Task[Any, Any]:
        register: _Register = self.task(name=name, **options)
        task: Task[Any, Any] = register(function)
        return task

    # -- jobs

    def job(self, id: str) -> JobHandle[Any]:  # noqa: A002 - the word users know
        """A handle on a job by its id; raises `JobNotFound`."""
        handle: JobHandle[Any] = JobHandle(self.client, checked_id(id))
        return handle.refresh()

    @property
    def queues(self) -> Queues:
        """What can be said of queues at run time: limits, pause, hold, drain."""
        return Queues(self.client)

    @property
    def keys(self) -> Keys:
        """What can be said of keys at run time: limits."""
        return Keys(self.client)

    @property
    def queue_rules(self) -> dict[str, QueueRules]:
        """What the app declares of its queues, for the workers to tell the store; also of those
        that have no limits any more, which the store would keep else.
        """
        return {name: limit.rules for name, limit in self._limits.items()}

    @property
    def queue_retention(self) -> dict[str, dict[State, timedelta]]:
        """How long finished jobs of a queue are kept, where that differs from `retention`."""
        return {
            name: dict(limit.retention) for name, limit in self._limits.items() if limit.retention
        }

    def move_to(self, url: str) -> None:
        """Use another store from now on; for command lines that name one."""
        self.store_through(open_store(url, self._clock), shares_writes=True)
        self.url = url

    def store_through(self, store: Store, *, shares_writes: bool = False) -> None:
        """Use this store from now on; for executors, which talk through their supervisor."""
        self._store.close()
        self.__dict__.pop("client", None)
        self._store = store
        self._shares_writes = shares_writes

    def close(self) -> None:
        """Close the store; the app can not be used any more."""
        self._store.close()


_OF_A_TASK = (
    "name", "isolation", "version", "breaker", "weight", "heavy", "on_pressure",
)  # fmt: skip


class _Register:
    """The decorator that `app.task(...)` with options returns."""

    def __init__(
        self,
        app: App,
        name: str | None,
        isolation: Isolation,
        version: int,
        breaker: Breaker | str | None,
        gate: tuple[Weight | None, bool],
        options: Mapping[str, Any],
    ) -> None:
        if isolation not in get_args(Isolation):
            raise InvalidOption(f'isolation is {isolation!r}; write "auto" or "process".')
        self._app = app
        self._name = name
        self._isolation = isolation
        self._version = version
        self._breaker = breaker
        self._weight, self._gives_way = gate
        self._options = JobOptions().changed(options, _OF_A_TASK)

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]
    ) -> Task[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> Task[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Task[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R]) -> Task[P, R]: ...

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
        task: Task[Any, Any] = Task(
            name,
            function,
            self._options,
            Signature(name, function),
            self._app,
            isolation=self._isolation,
            version=checked_version(name, self._version),
            weight=self._weight,
            gives_way=self._gives_way,
        )
        self._app._add(task, self._breaker)
        return task


_opened: "weakref.WeakSet[App]" = weakref.WeakSet()


def opened() -> list[App]:
    """Every app of this process that is not closed."""
    return list(_opened)


@atexit.register
def _close_all() -> None:
    for app in list(_opened):
        app.close()
