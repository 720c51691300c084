"""Limpet: a job system in which a job cannot be orphaned.

Names are imported when they are first used, so that a process which needs little loads little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limpet.app import App
    from limpet.client.handle import JobHandle
    from limpet.client.secret import Secret
    from limpet.context import Context, current
    from limpet.domain.cause import Cause
    from limpet.domain.errors import (
        AttemptStopped,
        InvalidOption,
        JobCancelled,
        JobFailed,
        JobNotFound,
        LimpetError,
        MoveRefused,
        PayloadInvalid,
        PayloadTooLarge,
        QueueFull,
        ResultTimeout,
        RetryAfter,
        Snooze,
        StoreBusy,
        StoreError,
        StoreFull,
        StoreMoved,
        StoreReadOnly,
        StoreUnavailable,
        StoreUnreachable,
        TransactionRefused,
        UnknownTask,
        Unrecoverable,
    )
    from limpet.domain.queue import QueueLimit
    from limpet.domain.retry import Retry
    from limpet.domain.state import State
    from limpet.task import Call, Task

__version__ = "0.1.0"

_HOME = {
    "App": "limpet.app",
    "Call": "limpet.task",
    "Cause": "limpet.domain.cause",
    "Context": "limpet.context",
    "JobHandle": "limpet.client.handle",
    "QueueLimit": "limpet.domain.queue",
    "Retry": "limpet.domain.retry",
    "Secret": "limpet.client.secret",
    "State": "limpet.domain.state",
    "Task": "limpet.task",
    "current": "limpet.context",
}

__all__ = [
    "App",
    "AttemptStopped",
    "Call",
    "Cause",
    "Context",
    "InvalidOption",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "LimpetError",
    "MoveRefused",
    "PayloadInvalid",
    "PayloadTooLarge",
    "QueueFull",
    "QueueLimit",
    "ResultTimeout",
    "Retry",
    "RetryAfter",
    "Secret",
    "Snooze",
    "State",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreMoved",
    "StoreReadOnly",
    "StoreUnavailable",
    "StoreUnreachable",
    "Task",
    "TransactionRefused",
    "UnknownTask",
    "Unrecoverable",
    "current",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'limpet' has no attribute {name!r}")
    value = getattr(import_module(_HOME.get(name, "limpet.domain.errors")), name)
    globals()[name] = value
    return value
