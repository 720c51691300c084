"""What an app has registered, and its way to its store: for workers and command lines."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any

from limpet.app.breaker import Breaker, BreakerDefinitions
from limpet.app.hooks import Hooks
from limpet.app.schedules import Declarations
from limpet.app.task import Task
from limpet.client.client import Client
from limpet.domain.breaker import BreakerRules
from limpet.domain.checks import instance
from limpet.domain.clock import Clock
from limpet.domain.errors import InvalidOption, UnknownTask
from limpet.domain.queue import QueueLimit, QueueRules, checked_name
from limpet.domain.schedule import Schedule
from limpet.domain.state import State
from limpet.payload.context import Context
from limpet.payload.signature import Signature
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store


class AppRegistry:
    """The tasks, hooks, breakers, schedules and queue limits of an app, and its store."""

    def __init__(
        self,
        url: str,
        limits: Mapping[str, QueueLimit],
        clock: Clock | None,
        store_patience: timedelta,
    ) -> None:
        for name, limit in limits.items():
            instance(limit, f"queue {checked_name(name)!r}", QueueLimit, "limpet.QueueLimit(…)")
        self.url = url
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.hooks = Hooks()
        self.breakers = BreakerDefinitions()
        self.declarations = Declarations()
        self._limits = dict(limits)
        self._clock = clock
        self._retry_for = store_patience
        self._inside_worker = False
        # Opens nothing yet, but refuses a wrong URL at once.
        self._store = open_store(url, clock)

    # -- the store

    @cached_property
    def client(self) -> Client:
        """The client, which hands in jobs and follows them."""
        return Client(
            self._store,
            self._limits,
            self._clock,
            inside_worker=self._inside_worker,
            store_patience=self._retry_for,
            signature_of=self._signature_of,
        )

    def _signature_of(self, task: str) -> Signature | None:
        found = self.tasks.get(task)
        return None if found is None else found.signature

    def move_to(self, url: str) -> None:
        """Use another store from now on; for commands with `--url`."""
        self._use(open_store(url, self._clock), inside_worker=False)
        self.url = url

    def store_through(self, store: Store) -> None:
        """Use this store from now on; for executors, which reach it through their supervisor."""
        self._use(store, inside_worker=True)

    def _use(self, store: Store, *, inside_worker: bool) -> None:
        self._store.close()
        self.__dict__.pop("client", None)
        self._store = store
        self._inside_worker = inside_worker

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    # -- tasks

    def add(self, task: Task[Any, Any], breaker: Breaker | str | None) -> None:
        """Register a task; raises `InvalidOption` where there already is one of that name."""
        other = self.tasks.get(task.name)
        if other is not None:
            where = other.function.__code__ if hasattr(other.function, "__code__") else None
            place = f" ({where.co_filename}:{where.co_firstlineno})" if where else ""
            raise InvalidOption(
                f"there is already a task {task.name!r}{place}; give one of them another name: "
                f'@app.task(name="…").'
            )
        self.breakers.guard(task.name, breaker)
        self.tasks[task.name] = task

    def find(self, name: str) -> Task[Any, Any]:
        """The task of that name; raises `UnknownTask`."""
        task = self.tasks.get(name)
        if task is None:
            known = ", ".join(sorted(self.tasks)) or "none"
            raise UnknownTask(f"there is no task {name!r}; this app has: {known}.")
        return task

    # -- what workers declare in the store, and run around attempts

    @property
    def queue_rules(self) -> dict[str, QueueRules]:
        """The queue rules that workers declare in the store.

        Queues without limits are included, because the store would keep their former limits.
        """
        return {name: limit.rules for name, limit in self._limits.items()}

    @property
    def queue_retention(self) -> dict[str, dict[State, timedelta]]:
        """How long finished jobs of a queue are kept, where that differs from the app's."""
        return {
            name: dict(limit.retention) for name, limit in self._limits.items() if limit.retention
        }

    @property
    def breaker_rules(self) -> tuple[BreakerRules, ...]:
        """The breakers that have tasks, as workers declare them."""
        return self.breakers.rules()

    def declared_schedules(self) -> list[Schedule]:
        """The schedules that the code declares; raises where arguments do not fit their task."""
        now = self.client.clock.wall()
        return [
            declared.plan.schedule(id_, declared.task.call(**declared.args), now)
            for id_, declared in sorted(self.declarations.found.items())
        ]

    @property
    def start_hooks(self) -> tuple[Callable[[], Any], ...]:
        """What `on_start` registered, in that order."""
        return tuple(self.hooks.start)

    @property
    def stop_hooks(self) -> tuple[Callable[[], Any], ...]:
        """What `on_stop` registered, in that order."""
        return tuple(self.hooks.stop)

    @property
    def middlewares(self) -> tuple[Callable[[Context], Any], ...]:
        """What `middleware` registered, in that order."""
        return tuple(self.hooks.middlewares)
