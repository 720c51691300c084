"""What an executor can run: the tasks of the user's app, read once after its import."""

import contextlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from limpet.app.app import App
from limpet.app.hooks import OrphanHook
from limpet.app.locate import load_app
from limpet.app.task import Task
from limpet.domain.relaunch import Relaunch
from limpet.domain.retry import Retry
from limpet.domain.state import State
from limpet.payload.context import Context
from limpet.payload.signature import Signature
from limpet.payload.upgrades import Upgrades
from limpet.storage.records.store_settings import SchedulePiece
from limpet.storage.registry import absolute_url
from limpet.worker.wire.catalog import LARGEST_PAYLOAD, Catalog, TaskFacts
from limpet.worker.wire.plan import Plan


@dataclass(frozen=True, slots=True)
class Runnable:
    """A task as an attempt needs it."""

    name: str
    function: Callable[..., Any]
    signature: Signature
    is_async: bool
    context_name: str | None
    retry: Retry
    relaunch: Relaunch | None
    hook: OrphanHook | None
    version: int
    upgrades: Upgrades
    weighs: bool


class Wrapper(NamedTuple):
    """A middleware as a context manager around an attempt."""

    enter: Callable[[Context], Any]
    is_async: bool


class Registry:
    """The tasks, hooks and middleware of an app."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.tasks = {name: _runnable(task) for name, task in app.tasks.items()}
        self.payload_limit = min(app.payload_limit, LARGEST_PAYLOAD)
        declared = app.registry
        # Raises here if a task names a breaker that is not defined.
        self._breakers = list(declared.breaker_rules)
        self.wrappers = tuple(_wrapper(middleware) for middleware in declared.middlewares)
        self._schedules = {
            schedule.id: SchedulePiece.of(schedule).text()
            for schedule in declared.declared_schedules()
        }

    def catalog(self, threads: int, contained: bool) -> Catalog:
        """What the supervisor must know of the app."""
        return Catalog(
            url=self.app.url,
            tasks=[
                TaskFacts(
                    name,
                    in_lane=task.in_lane,
                    has_hook=task.orphan_hook is not None,
                    takes_context=task.signature.context_name is not None,
                    relaunches=task.options.relaunch is not None,
                    weight=task.weight,
                    gives_way=task.gives_way,
                )
                for name, task in sorted(self.app.tasks.items())
            ],
            retention=_seconds(self.app.retention),
            threads=threads,
            contained=contained,
            queues=dict(self.app.registry.queue_rules),
            queue_retention={
                queue: _seconds(kept) for queue, kept in self.app.registry.queue_retention.items()
            },
            breakers=self._breakers,
            schedules=self._schedules,
            removes_schedules=self.app.vanished_schedules == "remove",
            payload_limit=self.payload_limit,
        )


def _seconds(retention: Mapping[State, timedelta]) -> dict[str, float]:
    return {str(state): kept.total_seconds() for state, kept in retention.items()}


def _wrapper(middleware: Callable[[Context], Any]) -> Wrapper:
    if inspect.isasyncgenfunction(middleware):
        return Wrapper(contextlib.asynccontextmanager(middleware), is_async=True)
    return Wrapper(contextlib.contextmanager(middleware), is_async=False)


def _runnable(task: Task[Any, Any]) -> Runnable:
    return Runnable(
        task.name,
        task.function,
        task.signature,
        task.is_async,
        task.signature.context_name,
        task.options.retry or Retry(),
        task.options.relaunch,
        task.orphan_hook,
        task.version,
        task.upgrades,
        task.weight is not None,
    )


def load_registry(plan: Plan) -> Registry:
    """Import the app and read it."""
    app = load_app(plan.app)
    app.registry.move_to(absolute_url(plan.url or app.url))
    return Registry(app)
