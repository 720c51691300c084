"""Bounds of what a task may send in a request, for every type that a request is made of.

A request is made of the domain's own types, which say what a field is, but not how large it may be.
`bounded` builds the same type with bounds for every text, number and list: those in `FIELDS`, or
else those of the field's type.
"""

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache, reduce
from operator import or_
from types import GenericAlias, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from limpet.domain.checks import MOST
from limpet.domain.duration import LONGEST, microseconds
from limpet.domain.job import JobFilter, NewJob
from limpet.domain.lease import Lease
from limpet.domain.queue import HEAVIEST_WEIGHT, HIGHEST_PRIORITY, QueueRules
from limpet.domain.rate import Rate
from limpet.domain.rules import LONGEST_KEY, Rules
from limpet.domain.schedule import Schedule, Timing
from limpet.storage.contract.bounds import MOST_PER_BATCH
from limpet.storage.contract.store import CHUNK

# A request is read into memory as a whole. Many large jobs are sent as several requests. Each job
# fits into one (`storage.contract.bounds.batches`), unless its arguments alone are larger.
LARGEST_REQUEST_BYTES: Final = 4 * MOST_PER_BATCH + (1 << 20)
LONGEST_TEXT: Final = 64 * 1024

_ID = Meta(pattern=r"^[0-7][0-9a-v]{25}\Z")
_NAME = Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}\Z")
# An id or a name that a user typed: it may be that of nothing, or not valid at all.
_SOUGHT = Meta(max_length=1_000)
_KEY = Meta(min_length=1, max_length=LONGEST_KEY, pattern=r"^[^\x00-\x1f\x7f-\x9f]*\Z")
_COUNT = Meta(ge=1, le=MOST)
_LARGE_TEXT = Meta(max_length=LARGEST_REQUEST_BYTES)
_LAST_MOMENT_US: Final = (1 << 53) - 1  # the year 2255; every store can write it
LONGEST_US: Final = microseconds(LONGEST)

JobId = Annotated[str, _ID]
Name = Annotated[str, _NAME]
Sought = Annotated[str, _SOUGHT]
Key = Annotated[str, _KEY]
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
LargeText = Annotated[str, _LARGE_TEXT]
Count = Annotated[int, _COUNT]
Natural = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
Moment = Annotated[int, Meta(ge=0, le=_LAST_MOMENT_US)]
Period = Annotated[int, Meta(ge=1, le=LONGEST_US)]
_Wait = Annotated[int, Meta(ge=0, le=LONGEST_US)]
Priority = Annotated[int, Meta(ge=-HIGHEST_PRIORITY, le=HIGHEST_PRIORITY)]
Secrets = Annotated[list[Sought], Meta(max_length=100_000)]
_Version = Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]

_INT64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_FINITE = Annotated[float, Meta(ge=-1e300, le=1e300)]

FIELDS: Final[dict[tuple[type, str], Any]] = {
    # `task_requests` checks the ids and names of all jobs together: a pattern for each of a
    # thousand would take most of the time of a request.
    (NewJob, "id"): Annotated[str, Meta(min_length=26, max_length=26)],
    (NewJob, "task"): Sought,
    (NewJob, "args"): LargeText,
    (NewJob, "queue"): Sought,
    (NewJob, "secrets"): Secrets,
    (NewJob, "priority"): Priority,
    (NewJob, "scheduled_for"): Moment | None,
    (NewJob, "expires_at"): Moment | None,
    (NewJob, "deadline_at"): Moment | None,
    (NewJob, "key"): Key | None,
    (NewJob, "unique"): Key | None,
    (NewJob, "parent"): JobId | None,
    (NewJob, "root"): JobId | None,
    (NewJob, "weight_class"): Name | None,
    (NewJob, "payload_version"): _Version,
    (Rules, "key_limit"): Count,
    (Rules, "unique_for"): Period | None,
    (Rules, "children"): Natural,
    (Rate, "count"): Count,
    (Rate, "period_us"): Period,
    (Rate, "burst"): Count,
    (QueueRules, "concurrency"): Count | None,
    (QueueRules, "weight"): Annotated[int, Meta(ge=1, le=HEAVIEST_WEIGHT)] | None,
    (Lease, "job"): JobId,
    (Lease, "session"): JobId,
    (Lease, "token"): Natural,
    (JobFilter, "queue"): Sought | None,
    (JobFilter, "task"): Sought | None,
    (Timing, "every"): Annotated[int, Meta(ge=1_000_000, le=LONGEST_US)] | None,
    (Timing, "cron"): Annotated[str, Meta(max_length=1_000)] | None,
    (Timing, "tz"): Annotated[str, Meta(max_length=100)],
    (Timing, "jitter"): _Wait,
    # Ids that begin with "limpet:" are Limpet's own.
    (Schedule, "id"): Annotated[
        str, Meta(pattern=r"^(?!limpet:)[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}\Z")
    ],
    (Schedule, "next_at"): Moment,
    (Schedule, "declared"): Sought,
    (Schedule, "last_at"): Moment | None,
    (Schedule, "last_job"): Sought | None,
    (Schedule, "fired"): Natural,
    (Schedule, "passed"): Natural,
    (Schedule, "changed_at"): Moment,
}
_OF_TYPE: Final[Mapping[Any, Any]] = {str: Text, int: _INT64, float: _FINITE}
_NEED_NONE = (bool, type(None))


@cache
def bounded(kind: Any) -> Any:
    """The type with bounds in all its parts; an `Annotated` type keeps its own bounds."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind in _OF_TYPE:
        return _OF_TYPE[kind]
    if kind in _NEED_NONE or origin in (Annotated, Literal):
        return kind
    if origin in (list, tuple, frozenset, Sequence):
        return Annotated[GenericAlias(list, (bounded(parts[0]),)), Meta(max_length=CHUNK)]
    if origin in (dict, Mapping):
        items = GenericAlias(dict, (bounded(parts[0]), bounded(parts[1])))
        return Annotated[items, Meta(max_length=CHUNK)]
    if origin in (Union, UnionType):
        return reduce(or_, map(bounded, parts))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return _class(kind)


def _class(kind: Any, **changed: Any) -> Any:
    hints = get_type_hints(kind, include_extras=True)
    limits = {
        name: FIELDS.get((kind, name)) or bounded(hint)
        for name, hint in hints.items()
        if get_origin(hint) is not ClassVar
    }
    fields = list({**limits, **changed}.items())
    if issubclass(kind, tuple):
        name = f"Other{kind.__name__}" if changed else kind.__name__
        made: Any = typing.NamedTuple(name, fields)  # type: ignore[misc]
        made._field_defaults = kind._field_defaults
        made.__new__.__defaults__ = tuple(made._field_defaults.values())
        return made
    if issubclass(kind, msgspec.Struct):
        config = kind.__struct_config__
        return msgspec.defstruct(
            kind.__name__, _with_defaults(kind, fields), tag=config.tag,
            array_like=config.array_like, forbid_unknown_fields=True, kw_only=False,
        )  # fmt: skip
    required = {
        field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING
    }
    return msgspec.defstruct(
        kind.__name__,
        [(name, of) if name in required else (name, of, None) for name, of in fields],
        forbid_unknown_fields=True,
        kw_only=True,
    )


def _with_defaults(kind: type[msgspec.Struct], fields: list[tuple[str, Any]]) -> Any:
    required = {field.name for field in msgspec.structs.fields(kind) if field.required}
    return [(name, of) if name in required else (name, of, None) for name, of in fields]


# The job of a schedule has no id, because each tick makes one; its moments count from the tick.
FIELDS[Schedule, "job"] = _class(
    NewJob,
    id=Literal[""],
    scheduled_for=_Wait | None,
    expires_at=_Wait | None,
    deadline_at=_Wait | None,
)
