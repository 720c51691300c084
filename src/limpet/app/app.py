"""The app: the user's registry of tasks, bound to a store by URL."""

import asyncio
import atexit
import weakref
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, get_args, overload

from limpet import settings
from limpet.app.breaker import Breaker
from limpet.app.decorators import MakeTask
from limpet.app.hooks import TaskHooks
from limpet.app.intake import Intake
from limpet.app.queues import AppBreakers, Keys, Queues
from limpet.app.registry import AppRegistry
from limpet.app.schedules import Vanished
from limpet.app.task import AsyncTask, SyncTask, Task
from limpet.app.timetable import Timetable
from limpet.app.typed_options import BreakerOptions, TaskOptions
from limpet.client.client import Client
from limpet.client.handle import JobHandle
from limpet.domain.checks import choice
from limpet.domain.clock import Clock
from limpet.domain.duration import Duration
from limpet.domain.ids import checked_id
from limpet.domain.plural import number_of
from limpet.domain.queue import QueueLimit, kept_for
from limpet.gate.permits.app_permits import AppPermits
from limpet.payload.context import Context

P = ParamSpec("P")
R = TypeVar("R")


class App(Intake, Timetable, TaskHooks, AppPermits):
    """Tasks, and the store where their jobs live.

    `url`: where jobs live; else LIMPET_URL, else `limpet.toml`, else `sqlite:///limpet.db`.
    `queues`: caps, limits and retention of queues. `retention`: how long finished jobs are kept,
    by state. `payload_limit`: the most bytes of arguments. `store_patience`: how long `enqueue`
    tries again while the store does not answer, before it raises. `vanished_schedules`: whether
    a worker removes schedules that are no longer declared, or keeps them. The app opens its store
    at the first use.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        queues: Mapping[str, QueueLimit] | None = None,
        retention: Mapping[str, Duration] | None = None,
        payload_limit: int | None = None,
        store_patience: Duration | None = None,
        vanished_schedules: Vanished = "remove",
        clock: Clock | None = None,
    ) -> None:
        found = settings.load(url=url, payload_limit=payload_limit, store_patience=store_patience)
        self.payload_limit = found.payload_limit
        self.retention = kept_for({**found.retention, **(retention or {})})
        self.vanished_schedules: Vanished = choice(
            vanished_schedules, "vanished_schedules", get_args(Vanished)
        )
        self.registry = AppRegistry(found.url, queues or {}, clock, found.store_patience)
        """What the app has registered, for workers and the command line."""
        self._hooks = self.registry.hooks
        _opened.add(self)

    def __repr__(self) -> str:
        return f"<App {self.url} with {number_of(len(self.registry.tasks), 'task')}>"

    @property
    def url(self) -> str:
        """Where its jobs live."""
        return self.registry.url

    @property
    def client(self) -> Client:
        """What hands in jobs and follows them."""
        return self.registry.client

    # -- tasks

    # The same overloads as in `MakeTask`.
    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...

    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> SyncTask[P, R]: ...

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]

    @overload
    def task(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...

    @overload
    def task(self, function: None = None, /, **options: Unpack[TaskOptions]) -> MakeTask: ...

    def task(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]
    ) -> Any:
        """Register a function as a task, with its options: `@app.task(queue="email")`.

        `isolation="process"` runs an async task in a process of its own. `version`: the version of
        the task's arguments, see `Task.upgrade`. `breaker`: the breaker that holds its jobs back,
        or the name of one. `weight`: what each of its jobs takes of a host; or `heavy`: one heavy
        job at a time on a host, and only while the host is calm. `on_pressure="release"`: hand an
        attempt back when memory runs short. A job may have the other options for itself, see
        `Task.using`.
        """
        make = MakeTask(self, self.registry, options)
        return make if function is None else make(function)

    @property
    def tasks(self) -> Mapping[str, Task[Any, Any]]:
        """The registered tasks, by name."""
        return dict(self.registry.tasks)

    def find(self, name: str) -> Task[Any, Any]:
        """The task of that name; raises `UnknownTask`."""
        return self.registry.find(name)

    def breaker(self, name: str, **options: Unpack[BreakerOptions]) -> Breaker:
        """Define a breaker that tasks share by its name; takes what `limpet.Breaker` takes."""
        made = Breaker(name, **options)
        self.registry.breakers.define(made)
        return made

    # -- jobs

    def job(self, id: str) -> JobHandle[Any]:  # noqa: A002 - the word users know
        """A handle on a job by its id; raises `JobNotFound`."""
        handle: JobHandle[Any] = JobHandle(self.client, checked_id(id))
        return handle.refresh()

    async def ajob(self, id: str) -> JobHandle[Any]:  # noqa: A002
        """As `job`, without blocking the event loop."""
        return await asyncio.to_thread(self.job, id)

    # -- changes at run time

    @property
    def queues(self) -> Queues:
        """Changes of queues at run time: limit, pause, hold, drain."""
        return Queues(self.client)

    @property
    def keys(self) -> Keys:
        """Changes of keys at run time: limits."""
        return Keys(self.client)

    @property
    def breakers(self) -> AppBreakers:
        """Changes of breakers at run time: reset."""
        return AppBreakers(self.client)

    def close(self) -> None:
        """Close the store; the app cannot be used after that."""
        self.registry.close()

    async def aclose(self) -> None:
        """As `close`, without blocking the event loop."""
        await asyncio.to_thread(self.close)


_opened: "weakref.WeakSet[App]" = weakref.WeakSet()


def opened() -> list[App]:
    """Every app of this process that is not closed."""
    return list(_opened)


@atexit.register
def _close_all() -> None:
    for app in list(_opened):
        app.close()
