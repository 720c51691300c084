"""The options of a job: given with the task, changed with `using(...)`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from limpet.domain.duration import Duration, duration, microseconds
from limpet.domain.errors import InvalidOption
from limpet.domain.queue import DEFAULT_QUEUE, checked_name, priority_level
from limpet.domain.retry import Retry

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# How long one attempt may take, and be silent; in the record as seconds.
_LIMITS = ("timeout", "stall_after")

Moment = Duration | datetime
"""A time from now, or a date and time with its time zone."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What can be said of a job beside its arguments.

    `delay`: not before. `expires`: dropped if not started by then. `deadline`: all its attempts
    together end by then. `timeout`: the longest that one attempt may take. `stall_after`: the
    longest that it may go without `ctx.progress`. `within`: the user's own connection, with whose
    transaction the job is committed.
    """

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    delay: Moment | None = None
    expires: Moment | None = None
    deadline: Moment | None = None
    timeout: Duration | None = None
    stall_after: Duration | None = None
    retry: Retry | None = None
    within: object = None

    def changed(self, changes: Mapping[str, Any]) -> "JobOptions":
        """These options with some replaced, each checked."""
        known = [field.name for field in fields(self)]
        unknown = sorted(set(changes) - set(known))
        if unknown:
            raise InvalidOption(
                f"unknown option {', '.join(unknown)}; known are {', '.join(known)}."
            )
        new = replace(self, **changes)
        checked_name(new.queue)
        priority_level(new.priority)
        for name in ("delay", "expires", "deadline"):
            value = getattr(new, name)
            if value is not None:
                at(value, 0, name)
        for name in _LIMITS:
            value = getattr(new, name)
            if value is not None and not duration(value, what=name):
                raise InvalidOption(f"{name} is {value!r}; write a time longer than nothing.")
        if new.retry is not None and not isinstance(new.retry, Retry):
            raise InvalidOption(f"retry is {new.retry!r}; write limpet.Retry(…).")
        return new

    def record(self, *, orphan_hook: bool = False) -> str:
        """What travels with the job to whoever runs it, as JSON."""
        travelling: dict[str, Any] = {"orphan_hook": True} if orphan_hook else {}
        for name in _LIMITS:
            value = getattr(self, name)
            if value is not None:
                travelling[name] = duration(value).total_seconds()
        if self.retry is not None:
            travelling["retry"] = self.retry.record()
        return msgspec.json.encode(travelling).decode()


def at(value: Moment, now: int, name: str) -> int:
    """A moment as wall time in microseconds."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidOption(
                f"{name} is {value!r}, which has no time zone; write for example "
                f"datetime.now(UTC) + timedelta(hours=1)."
            )
        return microseconds(value - _EPOCH)
    return now + microseconds(duration(value, what=name))
