"""What an executor can run: the tasks of the user's app, read once."""

import contextlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from limpet.app import App
from limpet.client.signature import Signature
from limpet.client.upgrades import Upgrades
from limpet.context import Context
from limpet.domain.relaunch import Relaunch
from limpet.domain.retry import Retry
from limpet.domain.state import State
from limpet.hooks import OrphanHook
from limpet.locate import load_app
from limpet.storage.furniture import SchedulePiece
from limpet.storage.registry import absolute_url
from limpet.task import Task
from limpet.worker.catalog import LARGEST_PAYLOAD, Catalog, TaskFacts
from limpet.worker.plan import Plan


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
        self._breakers = list(app.breaker_rules)  # refused here where a task names one in vain
        self.wrappers = tuple(_wrapper(each) for each in app.middlewares)
        self._schedules = {
            each.id: SchedulePiece.of(each).text() for each in app.declared_schedules()
        }

    def catalog(self, threads: int, contained: bool) -> Catalog:
        """What the supervisor must know."""
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
            queues=dict(self.app.queue_rules),
            queue_retention={
                queue: _seconds(kept) for queue, kept in self.app.queue_retention.items()
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
    app.move_to(absolute_url(plan.url or app.url))
    return Registry(app)
