"""The requests that a task may send to the supervisor: one struct for each verb, and its answer.

This is the only table of requests. A request has the parameters of its verb (`storage.contract`),
with the same names in the same order; its tag is the verb. `read_request` is the only way from
bytes to a request: it checks types and bounds first, then what types cannot express.
"""

from operator import attrgetter
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import msgspec
from msgspec import Meta

from limpet.domain.breaker import BreakerStatus
from limpet.domain.errors import LimpetError
from limpet.domain.event import Event
from limpet.domain.ids import are_ids, checked_id
from limpet.domain.job import Job, JobFilter, JobList, LogLine, NewJob
from limpet.domain.lease import Lease
from limpet.domain.queue import QueueRules, QueueView, checked_name
from limpet.domain.rate import Rate
from limpet.domain.schedule import Schedule
from limpet.domain.session import Session
from limpet.domain.state import State
from limpet.storage.contract.answers import Broken, Receipt, StoreInfo, Ticked, Total
from limpet.worker.wire import request_bounds
from limpet.worker.wire.bounds import Chunks
from limpet.worker.wire.request_bounds import (
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
    """The bytes are no request, or a request out of bounds."""


class Request(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """One call of a verb of the store by a task."""

    answer: ClassVar[Any]

    @classmethod
    def verb(cls) -> str:
        """The verb of the store."""
        return str(cls.__struct_config__.tag)

    @property
    def holder(self) -> Lease | None:
        """The lease of the attempt that sends it, where the request carries one."""
        fence: Lease | None = getattr(self, "fence", None)
        return fence

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments of the verb."""
        return msgspec.structs.astuple(self), {}


# -- hand in


class EnqueueRequest(Request, tag="enqueue", frozen=True):
    jobs: list[NewJob]
    caps: Caps | None = None
    all_or_none: bool = False
    fence: Lease | None = None
    answer = list[Receipt]

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        more = {"caps": self.caps, "all_or_none": self.all_or_none, "fence": self.fence}
        return (self.jobs,), more


class StageRequest(Request, tag="stage", frozen=True):
    """The store does not check the lease of who stages; the supervisor does."""

    flow: JobId
    place: Chunks
    jobs: list[NewJob]
    fence: Lease
    answer = type(None)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.flow, self.place, self.jobs), {}


class CommitRequest(Request, tag="commit", frozen=True):
    flow: JobId
    chunks: Chunks
    fence: Lease
    caps: Caps | None = None
    answer = bool

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.flow, self.chunks, self.fence), {"caps": self.caps} if self.caps else {}


class ChildrenRequest(Request, tag="children", frozen=True):
    job: Sought
    cursor: Sought | None = None
    limit: int = 50
    answer = JobList


# -- limits and repair


class LimitQueueRequest(Request, tag="limit_queue", frozen=True):
    queue: Name
    rules: QueueRules | None
    answer = type(None)


class HoldQueueRequest(Request, tag="hold_queue", frozen=True):
    queue: Name
    until: Moment
    answer = type(None)


class LimitKeyRequest(Request, tag="limit_key", frozen=True):
    key: request_bounds.Key
    limit: Count | None
    rate: Rate | None = None
    answer = type(None)


class DrainQueueRequest(Request, tag="drain_queue", frozen=True):
    queue: Name
    draining: bool = True
    answer = type(None)


class BreakersRequest(Request, tag="breakers", frozen=True):
    answer = tuple[BreakerStatus, ...]


class ResetBreakerRequest(Request, tag="reset_breaker", frozen=True):
    name: Sought
    answer = bool


class RepairRequest(Request, tag="repair", frozen=True):
    job: Sought
    args: LargeText
    payload_version: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]
    secrets: Secrets
    answer = State


class RequeueRequest(Request, tag="requeue", frozen=True):
    jobs: list[Sought]
    queue: Name
    answer = int


# -- schedules


class PutScheduleRequest(Request, tag="put_schedule", frozen=True):
    schedule: Schedule
    answer = bool


class RemoveScheduleRequest(Request, tag="remove_schedule", frozen=True):
    schedule: Sought
    answer = bool


class PauseScheduleRequest(Request, tag="pause_schedule", frozen=True):
    schedule: Sought
    paused: bool = True
    next_at: Moment | None = None
    answer = bool


class SchedulesRequest(Request, tag="schedules", frozen=True):
    answer = tuple[Schedule, ...]


class OneScheduleRequest(Request, tag="schedule", frozen=True):
    schedule: Sought
    answer = Schedule | None


class TriggerRequest(Request, tag="trigger", frozen=True):
    seen: Schedule
    job: NewJob
    answer = Ticked


# -- control


class CancelRequest(Request, tag="cancel", frozen=True):
    job: Sought
    reason: Reason = ""
    answer = State


class RetryRequest(Request, tag="retry", frozen=True):
    job: Sought
    seen_round: Natural
    answer = int


class PauseRequest(Request, tag="pause", frozen=True):
    queue: Name
    paused: bool = True
    answer = type(None)


# -- inspect


class OneJobRequest(Request, tag="job", frozen=True):
    job: Sought
    answer = Job | None


class StatesRequest(Request, tag="states", frozen=True):
    jobs: list[Sought]
    answer = dict[str, State]


class JobsRequest(Request, tag="jobs", frozen=True):
    which: JobFilter
    cursor: Sought | None = None
    limit: int = 50
    answer = JobList


class EventsRequest(Request, tag="events", frozen=True):
    job: Sought
    answer = tuple[Event, ...]


class LogRequest(Request, tag="log", frozen=True):
    job: Sought
    answer = tuple[LogLine, ...]


class QueuesRequest(Request, tag="queues", frozen=True):
    answer = tuple[QueueView, ...]


class SessionsRequest(Request, tag="sessions", frozen=True):
    with_dead: bool = False
    answer = tuple[Session, ...]


class TotalsRequest(Request, tag="totals", frozen=True):
    answer = tuple[Total, ...]


class InfoRequest(Request, tag="info", frozen=True):
    answer = StoreInfo


class InvariantsRequest(Request, tag="invariants", frozen=True):
    answer = tuple[Broken, ...]


REQUESTS: Final[dict[str, type[Request]]] = {kind.verb(): kind for kind in Request.__subclasses__()}

_encode = msgspec.msgpack.Encoder().encode
_any_request: Any = None
_any_bounded: Any = None
for _kind in REQUESTS.values():
    _any_request = _kind if _any_request is None else _any_request | _kind
    _any_bounded = bounded(_kind) if _any_bounded is None else _any_bounded | bounded(_kind)
_typed = msgspec.msgpack.Decoder(_any_request)
# Checks the bounds; a request that passes is decoded again, into the domain's own types.
_within_bounds = msgspec.msgpack.Decoder(_any_bounded)
_MISFITS = (msgspec.MsgspecError, LimpetError, ValueError, RecursionError)
_options = msgspec.json.Decoder(dict[str, Any])
_check_json = msgspec.json.Decoder(msgspec.Raw).decode
_ID, _TASK, _QUEUE, _ARGUMENTS, _OPTIONS, _RULES = map(
    attrgetter, ("id", "task", "queue", "args", "options", "rules")
)


def request_bytes(request: Request) -> bytes:
    """A request as bytes; raises `RequestInvalid` where the supervisor would refuse it.

    An honest task that passes nonsense to the store must get an error, not lose its executor.
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
    """The request in these bytes; raises `RequestInvalid` if they are none."""
    try:
        _within_bounds.decode(body)
        request: Request = _typed.decode(body)
        _check(request)
    except _MISFITS as error:
        raise RequestInvalid(str(error)[:500] or type(error).__name__) from None
    return request


def _check(request: Request) -> None:
    """Check what types cannot express."""
    match request:
        case EnqueueRequest() | StageRequest():
            _check_new_jobs(request.jobs)
        case PutScheduleRequest():
            _check_jobs([request.schedule.job])  # the timing is checked where ticks are computed
        case TriggerRequest():
            _check_new_jobs([request.job])
        case LimitQueueRequest():
            if request.rules is not None:
                _check_rate(request.rules.rate)
        case RepairRequest():
            _check_json(request.args)
        case LimitKeyRequest():
            _check_rate(request.rate)


def _check_new_jobs(jobs: list[NewJob]) -> None:
    ids = [*map(_ID, jobs)]
    if not are_ids(ids):
        for id_ in ids:
            checked_id(id_)
    _check_jobs(jobs)


def _check_jobs(jobs: list[NewJob]) -> None:
    """Check each distinct value once: most jobs of a request have the same ones."""
    for name in {*map(_TASK, jobs), *map(_QUEUE, jobs)}:
        checked_name(name)
    for arguments in {*map(_ARGUMENTS, jobs)} - {"{}"}:
        _check_json(arguments)
    for options in {*map(_OPTIONS, jobs)} - {"{}"}:
        _options.decode(options)
    for rules in {*map(_RULES, jobs)} - {None}:
        _check_rate(rules.key_rate)


def _check_rate(rate: Rate | None) -> None:
    """Check that the products which stores compute of a rate stay within the longest duration."""
    if rate is not None and not (
        rate.count <= rate.period_us and rate.burst * rate.step_us <= request_bounds.LONGEST_US
    ):
        raise RequestInvalid(
            f"a rate of {rate.count} in {rate.period_us} µs, {rate.burst} at once, is not possible"
        )
