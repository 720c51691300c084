"""The options that users write, typed for type checkers."""

from typing import Any, Literal, TypedDict

from limpet.app.breaker import Breaker
from limpet.app.options import KeyOrder, Moment
from limpet.app.unique import Unique
from limpet.domain.duration import Duration
from limpet.domain.rate import Rate
from limpet.domain.relaunch import Relaunch
from limpet.domain.retry import Retry
from limpet.domain.weight import Weight

Isolation = Literal["auto", "process"]


class _EveryJob(TypedDict, total=False):
    """Options that a task sets for its jobs, or a job for itself; see `JobOptions`."""

    queue: str
    priority: int
    delay: Moment | None
    expires: Moment | None
    deadline: Moment | None
    timeout: Duration | None
    stall_after: Duration | None
    relaunch: Relaunch | None
    key: str | None
    key_limit: int | None
    key_rate: str | Rate | None
    key_order: KeyOrder | None
    unique: str | Unique | None


class _EveryTask(_EveryJob, total=False):
    """Options that only a task has; the default `name` is that of its function."""

    name: str | None
    isolation: Isolation
    version: int
    breaker: Breaker | str | None
    weight: Weight | None
    heavy: bool
    on_pressure: Literal["release"] | None


class UsingOptions(_EveryJob, total=False):
    """The options of `task.using(…)`."""

    retry: Retry | None
    within: Any


class TaskOptions(_EveryTask, total=False):
    """The options of `@app.task(…)`."""

    retry: Retry | None


class ScannerOptions(_EveryTask, total=False):
    """The options of `@app.scanner(…)` beside its timing; no `retry`: a scanner has one attempt."""


class BreakerOptions(TypedDict, total=False):
    """The options of `app.breaker(…)`; see `limpet.Breaker`."""

    failure_rate: float
    least: int
    window: Duration
    probe_after: Duration


OF_A_TASK = ("name", "isolation", "version", "breaker", "weight", "heavy", "on_pressure")
"""The options that a job cannot have for itself."""
