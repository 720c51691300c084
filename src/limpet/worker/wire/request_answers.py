"""The answers to the requests of tasks: values of the domain, or an error that a task may get.

An answer is `[value]` or `[kind, message, facts]`. Causes travel as the timeline keeps them,
because the fields of a cause do not show its class.
"""

import dataclasses
from collections.abc import Callable
from types import GenericAlias
from typing import Any, Final, get_type_hints

import msgspec

from limpet.domain import errors
from limpet.domain.cause import cause_of
from limpet.domain.errors import LimpetError, StoreUnavailable
from limpet.domain.event import Event
from limpet.domain.job import Job, JobList
from limpet.domain.session import Session
from limpet.storage.records.texts import event_name
from limpet.worker.wire.task_requests import REQUESTS, Request

LARGEST_ANSWER_BYTES: Final = 1 << 30

# Every error that a verb can raise, and its attributes.
ERRORS: Final[dict[type[LimpetError], tuple[str, ...]]] = {
    errors.InvalidOption: (),
    errors.UnknownTask: (),
    errors.PayloadInvalid: ("field",),
    errors.PayloadTooLarge: ("field",),
    errors.QueueFull: ("queue", "waiting", "cap"),
    errors.QueueDraining: ("queue",),
    errors.DuplicateJob: ("unique", "job"),
    errors.UnknownParent: ("job", "parent"),
    errors.FlowIncomplete: ("flow",),
    errors.JobNotFound: ("job",),
    errors.ScheduleNotFound: ("schedule",),
    errors.BreakerNotFound: ("name",),
    errors.HostNotFound: ("server",),
    errors.MoveRefused: (),
    errors.LeaseLost: ("job", "session", "token"),
    errors.SessionLost: (),
    errors.SequenceError: (),
    errors.TransactionRefused: (),
    errors.StoreError: (),
    errors.StoreUnavailable: (),
    errors.StoreUnreachable: (),
    errors.StoreReadOnly: (),
    errors.StoreFull: (),
    errors.StoreBusy: (),
    errors.StoreCorrupt: (),
    errors.StoreRefused: (),
    errors.StoreRolledBack: (),
    errors.StoreMoved: (),
    errors.StoreNotMoved: (),
    errors.SchemaMismatch: (),
}
_BY_NAME: Final = {kind.__name__: kind for kind in ERRORS}


class Refusal(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """An error as it travels."""

    kind: str
    message: str
    facts: dict[str, str | int]


_encode = msgspec.msgpack.Encoder().encode
_refusal = msgspec.msgpack.Decoder(Refusal)


# -- encoding, in the supervisor


def answer_bytes(value: Any) -> bytes:
    """A verb's answer as it travels."""
    body: bytes = _encode((_plain(value),))
    if len(body) > LARGEST_ANSWER_BYTES:
        raise StoreUnavailable(
            f"the answer would be {len(body):,} bytes, and a task gets at most "
            f"{LARGEST_ANSWER_BYTES:,} at once; request fewer jobs at a time."
        )
    return body


def refusal_bytes(error: LimpetError) -> bytes:
    """An error as it travels: as the nearest of its base classes that a task may get."""
    kind = next((base for base in type(error).__mro__ if base in ERRORS), StoreUnavailable)
    facts = {name: getattr(error, name) for name in ERRORS[kind]}
    message = str(error).encode("utf-8", "replace").decode()
    return bytes(_encode(Refusal(kind.__name__, message, facts)))


def _plain(value: Any) -> Any:
    """The value, with every cause as the timeline keeps it."""
    if isinstance(value, Job | Event | Session):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        name = _CAUSE_OF[type(value)]
        cause = fields[name]
        return {**fields, name: None if cause is None else cause.record()}
    if isinstance(value, JobList):
        return {"jobs": _plain(value.jobs), "cursor": value.cursor}
    if isinstance(value, tuple) and value and type(value[0]) in _CAUSE_OF:
        return [_plain(item) for item in value]
    return value


# -- decoding, in the executor


def read_answer(kind: type[Request], body: bytes) -> Any:
    """The supervisor's answer to a request of this kind; raises the error if it is one."""
    try:
        if body[:1] == b"\x93":
            error = _error_of(_refusal.decode(body))
        else:
            (value,) = _DECODERS[kind].decode(body)
            return _restored(kind.answer, value)
    except (msgspec.MsgspecError, ValueError, LookupError, TypeError, RecursionError) as garbled:
        error = StoreUnavailable(
            f"the supervisor's answer to {kind.verb()} cannot be read: {garbled}"
        )
    raise error


def _error_of(refusal: Refusal) -> LimpetError:
    kind = _BY_NAME[refusal.kind]
    if set(refusal.facts) != set(ERRORS[kind]):
        raise ValueError(f"{refusal.kind} with {sorted(refusal.facts)}")
    error: LimpetError = kind.__new__(kind, refusal.message)
    error.args = (refusal.message,)
    error.__dict__.update(refusal.facts)
    return error


_CAUSE_OF: Final[dict[type, str]] = {Job: "error", Event: "cause", Session: "cause"}
_Record = dict[str, Any]


def _as_sent(kind: type, **changed: Any) -> type[msgspec.Struct]:
    """A class of the domain as `_plain` sends it."""
    hints = {**get_type_hints(kind), _CAUSE_OF[kind]: _Record | None, **changed}
    return msgspec.defstruct(kind.__name__, list(hints.items()), forbid_unknown_fields=True)


def _list_of(kind: type) -> Any:
    return GenericAlias(list, (kind,))


_SENT: Final[dict[type, type[msgspec.Struct]]] = {
    Job: _as_sent(Job),
    Event: _as_sent(Event, event=str),  # a newer version may send a name unknown to this one
    Session: _as_sent(Session),
}
_PAGE: Final = msgspec.defstruct(
    "JobList", [("jobs", _list_of(_SENT[Job])), ("cursor", str | None)]
)


def _domain(sent: Any, kind: type) -> Any:
    fields = msgspec.structs.asdict(sent)
    name = _CAUSE_OF[kind]
    if fields[name] is not None:
        fields[name] = cause_of(fields[name])
    if kind is Event:
        fields["event"] = event_name(fields["event"])
    return kind(**fields)


def _jobs(sent: Any) -> tuple[Job, ...]:
    return tuple(_domain(job, Job) for job in sent)


# Answers that contain causes: the type as which each travels, and the function that reads it.
_WITH_CAUSES: Final[dict[Any, tuple[Any, Callable[[Any], Any]]]] = {
    Job | None: (_SENT[Job] | None, lambda sent: None if sent is None else _domain(sent, Job)),
    JobList: (_PAGE, lambda sent: JobList(_jobs(sent.jobs), sent.cursor)),
    tuple[Event, ...]: (
        _list_of(_SENT[Event]),
        lambda sent: tuple(_domain(event, Event) for event in sent),
    ),
    tuple[Session, ...]: (
        _list_of(_SENT[Session]),
        lambda sent: tuple(_domain(session, Session) for session in sent),
    ),
}


def _restored(answer: Any, value: Any) -> Any:
    return _WITH_CAUSES[answer][1](value) if answer in _WITH_CAUSES else value


def _decoder(answer: Any) -> Any:
    sent = _WITH_CAUSES[answer][0] if answer in _WITH_CAUSES else answer
    return msgspec.msgpack.Decoder(GenericAlias(tuple, (sent,)))


_DECODERS: Final = {kind: _decoder(kind.answer) for kind in REQUESTS.values()}
