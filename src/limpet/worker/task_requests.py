"""The requests that a task may send to the supervisor: one struct for each verb, and its answer.

This is the only table of them. A request has the parameters of its verb (`storage.base`), with the
same names in the same order; its tag is the verb. `read_request` is the only way from bytes to a
request: types and bounds first, then what no type can say. Nothing acts on a request before.
"""

from datetime import timedelta
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import msgspec
from msgspec import Meta

from limpet.client.cron import timing_of
from limpet.domain.breaker import Breaker
from limpet.domain.errors import LimpetError
from limpet.domain.event import Event
from limpet.domain.ids import are_ids, checked_id
from limpet.domain.job import Job, JobFilter, LogLine, NewJob, Page
from limpet.domain.lease import Lease
from limpet.domain.queue import QueueRules, QueueView, checked_name
from limpet.domain.rate import Rate
from limpet.domain.schedule import Schedule
from limpet.domain.session import Session
from limpet.domain.state import State
from limpet.storage.answers import Broken, Receipt, StoreInfo, Ticked, Total
from limpet.worker import request_bounds
from limpet.worker.bounds import Chunks
from limpet.worker.request_bounds import (
    Count,
    JobId,
    LargeText,
    Moment,
    Name,
    Natural,
    Secrets,
    Sought,
    bounded,
)

Reason = Annotated[str, Meta(max_length=request_bounds.LONGEST_TEXT)]
Caps: TypeAlias = dict[Name, Natural]


class RequestInvalid(ValueError):
    """What came is no request, or one that is out of bounds."""


class Request(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """What a task asks of the store."""

    answer: ClassVar[Any]

    @classmethod
    def verb(cls) -> str:
        """The verb of the store."""
        return str(cls.__struct_config__.tag)

    @property
    def holder(self) -> Lease | None:
        """The attempt for which it speaks, where it names one."""
        fence: Lease | None = getattr(self, "fence", None)
        return fence

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the verb is called with."""
        return msgspec.structs.astuple(self), {}


# -- hand in


class Enqueue(Request, tag="enqueue", frozen=True):
    jobs: list[NewJob]
    caps: Caps | None = None
    all_or_none: bool = False
    fence: Lease | None = None
    answer = list[Receipt]

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        more = {"caps": self.caps, "all_or_none": self.all_or_none, "fence": self.fence}
        return (self.jobs,), more


class Stage(Request, tag="stage", frozen=True):
    """The store does not ask who stages; the supervisor does."""

    flow: JobId
    place: Chunks
    jobs: list[NewJob]
    fence: Lease
    answer = type(None)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.flow, self.place, self.jobs), {}


class Commit(Request, tag="commit", frozen=True):
    flow: JobId
    chunks: Chunks
    fence: Lease
    caps: Caps | None = None
    answer = bool

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.flow, self.chunks, self.fence), {"caps": self.caps} if self.caps else {}


class Children(Request, tag="children", frozen=True):
    job: Sought
    cursor: Sought | None = None
    limit: int = 50
    answer = Page


# -- limits and repair


class LimitQueue(Request, tag="limit_queue", frozen=True):
    queue: Name
    rules: QueueRules | None
    answer = type(None)


class HoldQueue(Request, tag="hold_queue", frozen=True):
    queue: Name
    until: Moment
    answer = type(None)


class LimitKey(Request, tag="limit_key", frozen=True):
    key: request_bounds.Key
    limit: Count | None
    rate: Rate | None = None
    answer = type(None)


class DrainQueue(Request, tag="drain_queue", frozen=True):
    queue: Name
    draining: bool = True
    answer = type(None)


class Breakers(Request, tag="breakers", frozen=True):
    answer = tuple[Breaker, ...]


class ResetBreaker(Request, tag="reset_breaker", frozen=True):
    name: Sought
    answer = bool


class Repair(Request, tag="repair", frozen=True):
    job: Sought
    args: LargeText
    payload_version: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]
    secrets: Secrets
    answer = State


class Requeue(Request, tag="requeue", frozen=True):
    jobs: list[Sought]
    queue: Name
    answer = int


# -- schedules


class PutSchedule(Request, tag="put_schedule", frozen=True):
    schedule: Schedule
    answer = bool


class RemoveSchedule(Request, tag="remove_schedule", frozen=True):
    schedule: Sought
    answer = bool


class PauseSchedule(Request, tag="pause_schedule", frozen=True):
    schedule: Sought
    paused: bool = True
    next_at: Moment | None = None
    answer = bool


class Schedules(Request, tag="schedules", frozen=True):
    answer = tuple[Schedule, ...]


class OneSchedule(Request, tag="schedule", frozen=True):
    schedule: Sought
    answer = Schedule | None


class Trigger(Request, tag="trigger", frozen=True):
    seen: Schedule
    job: NewJob
    answer = Ticked


# -- control


class Cancel(Request, tag="cancel", frozen=True):
    job: Sought
    reason: Reason = ""
    answer = State


class Retry(Request, tag="retry", frozen=True):
    job: Sought
    seen_round: Natural
    answer = int


class Pause(Request, tag="pause", frozen=True):
    queue: Name
    paused: bool = True
    answer = type(None)


# -- inspect


class OneJob(Request, tag="job", frozen=True):
    job: Sought
    answer = Job | None


class States(Request, tag="states", frozen=True):
    jobs: list[Sought]
    answer = dict[str, State]


class Jobs(Request, tag="jobs", frozen=True):
    which: JobFilter
    cursor: Sought | None = None
    limit: int = 50
    answer = Page


class Events(Request, tag="events", frozen=True):
    job: Sought
    answer = tuple[Event, ...]


class Log(Request, tag="log", frozen=True):
    job: Sought
    answer = tuple[LogLine, ...]


class Queues(Request, tag="queues", frozen=True):
    answer = tuple[QueueView, ...]


class Sessions(Request, tag="sessions", frozen=True):
    with_dead: bool = False
    answer = tuple[Session, ...]


class Totals(Request, tag="totals", frozen=True):
    answer = tuple[Total, ...]


class Info(Request, tag="info", frozen=True):
    answer = StoreInfo


class Invariants(Request, tag="invariants", frozen=True):
    answer = tuple[Broken, ...]


REQUESTS: Final[dict[str, type[Request]]] = {kind.verb(): kind for kind in Request.__subclasses__()}

_encode = msgspec.msgpack.Encoder().encode
_any_request: Any = None
_any_bounded: Any = None
for _kind in REQUESTS.values():
    _any_request = _kind if _any_request is None else _any_request | _kind
    _any_bounded = bounded(_kind) if _any_bounded is None else _any_bounded | bounded(_kind)
_typed = msgspec.msgpack.Decoder(_any_request)
# What passes this is within bounds, and is read again as the domain's own types.
_within_bounds = msgspec.msgpack.Decoder(_any_bounded)
_MISFITS = (msgspec.MsgspecError, LimpetError, ValueError, RecursionError)
_options = msgspec.json.Decoder(dict[str, Any])
_ID, _TASK, _QUEUE, _OPTIONS, _RULES = map(attrgetter, ("id", "task", "queue", "options", "rules"))


def request_bytes(request: Request) -> bytes:
    """A request as it travels, for one who sends it; raises `RequestInvalid`, as the other side
    would find it.

    An honest task that passes nonsense to the store must get an error, and not lose its process.
    """
    try:
        body: bytes = _encode(request)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RequestInvalid(f"{request.verb()}: {error}") from None
    if len(body) > request_bounds.LARGEST_REQUEST_BYTES:
        raise RequestInvalid(
            f"{request.verb()}: a task sends at most {request_bounds.LARGEST_REQUEST_BYTES:,} "
            f"bytes at once, not {len(body):,}; hand in fewer, or smaller ones."
        )
    try:
        _within_bounds.decode(body)
        _check(request)
    except _MISFITS as error:
        raise RequestInvalid(f"{request.verb()}: {error}") from None
    return body


def read_request(body: bytes) -> Request:
    """The request in these bytes; raises `RequestInvalid` for all others."""
    try:
        _within_bounds.decode(body)
        request: Request = _typed.decode(body)
        _check(request)
    except _MISFITS as error:
        raise RequestInvalid(str(error)[:500] or type(error).__name__) from None
    return request


def _check(request: Request) -> None:
    """What a type cannot say of a value."""
    match request:
        case Enqueue() | Stage():
            _check_new_jobs(request.jobs)
        case PutSchedule():
            _check_schedule(request.schedule)
        case Trigger():
            _check_new_jobs([request.job])
        case LimitQueue():
            if request.rules is not None:
                _check_rate(request.rules.rate)
        case LimitKey():
            _check_rate(request.rate)


def _check_new_jobs(jobs: list[NewJob]) -> None:
    ids = [*map(_ID, jobs)]
    if not are_ids(ids):
        for id_ in ids:
            checked_id(id_)
    _check_jobs(jobs)


def _check_jobs(jobs: list[NewJob]) -> None:
    """Most jobs of a request have these in common."""
    for name in {*map(_TASK, jobs), *map(_QUEUE, jobs)}:
        checked_name(name)
    for options in {*map(_OPTIONS, jobs)} - {"{}"}:
        _options.decode(options)
    for rules in {*map(_RULES, jobs)} - {None}:
        _check_rate(rules.key_rate)


def _check_rate(rate: Rate | None) -> None:
    """Stores multiply its numbers, so a burst brings together no more than the longest time."""
    if rate is not None and not (
        rate.count <= rate.period and rate.burst * rate.step <= request_bounds.LONGEST_US
    ):
        raise RequestInvalid(f"no rate is {rate.count} in {rate.period} µs, {rate.burst} at once")


def _check_schedule(schedule: Schedule) -> None:
    """Every worker reckons its next ticks."""
    timing = schedule.timing
    if timing.cron is not None:
        timing_of(cron=timing.cron, tz=timing.tz, jitter=_time(timing.jitter))
    else:
        timing_of(every=_time(timing.every or 0), jitter=_time(timing.jitter))
    _check_jobs([schedule.job])


def _time(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)
