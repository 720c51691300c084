"""Limpet: a job system in which a job cannot be orphaned.

Names are imported when they are first used, so that a process which needs little loads little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limpet.app.app import App
    from limpet.app.breaker import Breaker
    from limpet.app.flows import Child, Flow
    from limpet.app.task import AsyncTask, Call, SyncTask, Task
    from limpet.app.unique import Unique
    from limpet.client.group import GroupHandle
    from limpet.client.handle import JobHandle
    from limpet.domain.cause import Cause
    from limpet.domain.child import ChildResult
    from limpet.domain.errors import (
        AttemptStopped,
        BreakerNotFound,
        DuplicateJob,
        FanOut,
        FlowIncomplete,
        GateTimeout,
        InvalidOption,
        JobCancelled,
        JobFailed,
        JobNotFound,
        LeaseLost,
        LimpetError,
        MoveRefused,
        NeverFits,
        PayloadInvalid,
        PayloadTooLarge,
        PermitLost,
        QueueDraining,
        QueueFull,
        RateLimited,
        ResultTimeout,
        RetryAfter,
        ScheduleNotFound,
        SchemaMismatch,
        Snooze,
        StoreBusy,
        StoreCorrupt,
        StoreError,
        StoreFull,
        StoreMoved,
        StoreReadOnly,
        StoreRefused,
        StoreUnavailable,
        StoreUnreachable,
        TransactionRefused,
        UnknownTask,
        Unrecoverable,
    )
    from limpet.domain.queue import QueueLimit
    from limpet.domain.relaunch import Relaunch
    from limpet.domain.result import Result
    from limpet.domain.retry import Retry
    from limpet.domain.scan import ScanReport
    from limpet.domain.schedule import Schedule
    from limpet.domain.state import State
    from limpet.domain.weight import Weight
    from limpet.gate.permits.permit import Permit
    from limpet.payload.context import Context, current
    from limpet.payload.secret import Secret

__version__ = "0.1.0"

_HOME = {
    "App": "limpet.app.app",
    "AsyncTask": "limpet.app.task",
    "Breaker": "limpet.app.breaker",
    "Call": "limpet.app.task",
    "Cause": "limpet.domain.cause",
    "Child": "limpet.app.flows",
    "ChildResult": "limpet.domain.child",
    "Context": "limpet.payload.context",
    "Flow": "limpet.app.flows",
    "GroupHandle": "limpet.client.group",
    "JobHandle": "limpet.client.handle",
    "Permit": "limpet.gate.permits.permit",
    "QueueLimit": "limpet.domain.queue",
    "Relaunch": "limpet.domain.relaunch",
    "Result": "limpet.domain.result",
    "Retry": "limpet.domain.retry",
    "ScanReport": "limpet.domain.scan",
    "Schedule": "limpet.domain.schedule",
    "Secret": "limpet.payload.secret",
    "State": "limpet.domain.state",
    "SyncTask": "limpet.app.task",
    "Task": "limpet.app.task",
    "Unique": "limpet.app.unique",
    "Weight": "limpet.domain.weight",
    "current": "limpet.payload.context",
}

__all__ = [
    "App",
    "AsyncTask",
    "AttemptStopped",
    "Breaker",
    "BreakerNotFound",
    "Call",
    "Cause",
    "Child",
    "ChildResult",
    "Context",
    "DuplicateJob",
    "FanOut",
    "Flow",
    "FlowIncomplete",
    "GateTimeout",
    "GroupHandle",
    "InvalidOption",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "LeaseLost",
    "LimpetError",
    "MoveRefused",
    "NeverFits",
    "PayloadInvalid",
    "PayloadTooLarge",
    "Permit",
    "PermitLost",
    "QueueDraining",
    "QueueFull",
    "QueueLimit",
    "RateLimited",
    "Relaunch",
    "Result",
    "ResultTimeout",
    "Retry",
    "RetryAfter",
    "ScanReport",
    "Schedule",
    "ScheduleNotFound",
    "SchemaMismatch",
    "Secret",
    "Snooze",
    "State",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreMoved",
    "StoreReadOnly",
    "StoreRefused",
    "StoreUnavailable",
    "StoreUnreachable",
    "SyncTask",
    "Task",
    "TransactionRefused",
    "Unique",
    "UnknownTask",
    "Unrecoverable",
    "Weight",
    "current",
]


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'limpet' has no attribute {name!r}")
    value = getattr(import_module(_HOME.get(name, "limpet.domain.errors")), name)
    globals()[name] = value
    return value
