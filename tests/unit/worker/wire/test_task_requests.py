"""Requests and answers on their way between a task and the supervisor: whole, typed, bounded."""

import inspect
import os
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.request_values import NONSENSE, answered, sent, spoilt

from limpet.domain import errors
from limpet.domain.cause import Cause
from limpet.domain.errors import LimpetError, StoreUnavailable
from limpet.domain.job import NewJob
from limpet.domain.queue import QueueRules
from limpet.domain.rate import Rate
from limpet.storage.contract.store import CHUNK, Store
from limpet.storage.sqlite.boot import ForeignSessions
from limpet.worker.wire import request_answers, request_bounds
from limpet.worker.wire.request_answers import ERRORS, answer_bytes, read_answer, refusal_bytes
from limpet.worker.wire.request_bounds import bounded
from limpet.worker.wire.task_requests import (
    REQUESTS,
    CancelRequest,
    EnqueueRequest,
    InfoRequest,
    LimitQueueRequest,
    RepairRequest,
    Request,
    RequestInvalid,
    read_request,
    request_bytes,
)

LONG = 40 if os.environ.get("LIMPET_TEST_LONG") else 1
KINDS = [REQUESTS[verb] for verb in sorted(REQUESTS)]
encode = msgspec.msgpack.encode
JOB = NewJob("01k7h7egouaedbkfnefms35cmt", "add", "{}")
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.verb())


# -- the table


@each_kind
def test_a_request_has_the_parameters_of_its_verb(kind: type[Request]) -> None:
    verb = inspect.signature(getattr(Store, kind.verb()))
    known = [name for name in verb.parameters if name not in ("self", "before_write")]
    fields = list(kind.__struct_fields__)
    if kind.verb() == "stage":
        fields.remove("fence")  # which the supervisor looks at, and not the store
    assert fields == known


@each_kind
def test_no_text_number_or_list_of_a_request_is_without_a_bound(kind: type[Request]) -> None:
    schema = msgspec.json.schema(bounded(kind))
    unbounded: list[object] = []

    def walk(node: Any) -> None:
        if isinstance(node, list):
            for item in node:
                walk(item)
        if not isinstance(node, dict):
            return
        match node.get("type"):
            case "string" if not {"maxLength", "pattern"} & set(node):
                unbounded.append(node)
            case "integer" | "number" if not {"minimum", "maximum"} <= set(node):
                unbounded.append(node)
            case "array" if "maxItems" not in node:
                unbounded.append(node)
            case "object" if "properties" not in node and "maxProperties" not in node:
                unbounded.append(node)
        for value in node.values():
            walk(value)

    walk(schema)
    assert unbounded == []


def test_the_search_for_what_has_no_bound_finds_it() -> None:
    schema = msgspec.json.schema(CancelRequest)
    assert "maxLength" in str(schema)
    assert "maxLength" not in str(msgspec.json.schema(NewJob))


# -- there and back


@each_kind
@settings(max_examples=6 * LONG)
@given(data=st.data())
def test_a_request_comes_as_it_was_sent(kind: type[Request], data: st.DataObject) -> None:
    body = encode(data.draw(sent(kind)))
    request = read_request(body)
    assert type(request) is kind
    assert read_request(request_bytes(request)) == request
    args, kwargs = request.arguments()
    inspect.signature(getattr(Store, kind.verb())).bind(None, *args, **kwargs)


@each_kind
@settings(max_examples=6 * LONG)
@given(data=st.data())
def test_an_answer_comes_as_it_was_sent(kind: type[Request], data: st.DataObject) -> None:
    value = data.draw(answered(kind.answer))
    back = read_answer(kind, answer_bytes(value))
    assert back == value
    assert type(back) is type(value)


NOT_OF_A_VERB = {
    errors.JobFailed, errors.JobCancelled, errors.ResultTimeout, errors.GateTimeout,
    errors.NeverFits, errors.PermitLost, errors.Unrecoverable, errors.RetryAfter, errors.Snooze,
    errors.RateLimited, errors.FanOut, errors._ComesBack, LimpetError,
}  # fmt: skip


def every_error() -> list[type[LimpetError]]:
    found, left = [], [LimpetError]
    while left:
        kind = left.pop()
        found.append(kind)
        left += kind.__subclasses__()
    return [
        kind for kind in found
        if not issubclass(kind, Cause) and kind.__module__ == errors.__name__
    ]  # fmt: skip


MADE: dict[type[LimpetError], LimpetError] = {
    errors.PayloadInvalid: errors.PayloadInvalid("it does not fit", field="to"),
    errors.PayloadTooLarge: errors.PayloadTooLarge("it is too large", field="args"),
    errors.QueueFull: errors.QueueFull("q", 5, 5),
    errors.QueueDraining: errors.QueueDraining("q"),
    errors.DuplicateJob: errors.DuplicateJob("u", "j"),
    errors.UnknownParent: errors.UnknownParent("j", "p"),
    errors.FlowIncomplete: errors.FlowIncomplete("f"),
    errors.JobNotFound: errors.JobNotFound("j"),
    errors.ScheduleNotFound: errors.ScheduleNotFound("s"),
    errors.BreakerNotFound: errors.BreakerNotFound("b", ["a"]),
    errors.HostNotFound: errors.HostNotFound("h"),
    errors.LeaseLost: errors.LeaseLost("j", "s", 3),
}


def test_every_error_is_either_answered_or_never_raised_by_a_verb() -> None:
    assert set(every_error()) == set(ERRORS) | NOT_OF_A_VERB


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_comes_out_in_the_task_as_it_was_raised(kind: type[LimpetError]) -> None:
    error = MADE.get(kind) or kind("a sentence with half a \N{PILE OF POO}")
    assert set(error.__dict__) == set(ERRORS[kind]), "what it knows does not travel"
    with pytest.raises(LimpetError) as caught:
        read_answer(InfoRequest, refusal_bytes(error))
    assert type(caught.value) is kind
    assert str(caught.value) == str(error)
    assert caught.value.args == error.args
    assert caught.value.__dict__ == error.__dict__
    assert caught.value.accepted == ()


def test_an_error_of_a_backend_comes_as_the_nearest_that_a_task_knows() -> None:
    class OfABackend(errors.StoreBusy):
        pass

    with pytest.raises(errors.StoreBusy, match="locked"):
        read_answer(InfoRequest, refusal_bytes(OfABackend("locked")))
    assert not issubclass(ForeignSessions, LimpetError)


# -- what is no request


def is_refused(body: bytes) -> None:
    """Anything but a request raises this one error; what passes is one."""
    try:
        request = read_request(body)
    except RequestInvalid:
        return
    assert isinstance(request, Request)


@settings(max_examples=200 * LONG)
@given(st.one_of(st.binary(max_size=200), NONSENSE.map(encode)))
def test_bytes_of_any_kind_raise_nothing_but_the_one_error(body: bytes) -> None:
    is_refused(body)


@settings(max_examples=150 * LONG)
@given(kind=st.sampled_from(KINDS), data=st.data())
def test_well_formed_nonsense_raises_nothing_but_the_one_error(
    kind: type[Request], data: st.DataObject
) -> None:
    is_refused(encode(data.draw(spoilt(sent(kind)))))


@settings(max_examples=150 * LONG)
@given(kind=st.sampled_from(KINDS), data=st.data())
def test_an_answer_of_any_kind_raises_nothing_but_our_errors(
    kind: type[Request], data: st.DataObject
) -> None:
    body = data.draw(st.one_of(st.binary(max_size=60), st.lists(NONSENSE, max_size=3).map(encode)))
    try:
        read_answer(kind, body)
    except LimpetError:
        return


UNFIT = {
    "more jobs than a chunk": EnqueueRequest([JOB] * (CHUNK + 1)),
    "an id of another shape": EnqueueRequest([JOB, JOB._replace(id="z" * 26)]),
    "an id that is shorter": EnqueueRequest([JOB, JOB._replace(id="0")]),
    "a task without a name": EnqueueRequest([JOB._replace(task="")]),
    "options that are no object": EnqueueRequest([JOB._replace(options="[]")]),
    "options without end": EnqueueRequest([JOB._replace(options='{"a":' + "[" * 5_000)]),
    "a priority beyond all": EnqueueRequest([JOB._replace(priority=1 << 40)]),
    "a moment beyond all": EnqueueRequest([JOB._replace(expires_at=1 << 60)]),
    "an integer of 80 bits": EnqueueRequest([JOB._replace(expires_at=1 << 80)]),
    "half a character": EnqueueRequest([JOB._replace(args='"\ud800"')]),
    "a reason like a book": CancelRequest("j", "x" * 100_000),
}


@pytest.mark.parametrize("unfit", UNFIT)
def test_a_task_that_asks_nonsense_is_told_so_and_sends_nothing(unfit: str) -> None:
    with pytest.raises(RequestInvalid):
        request_bytes(UNFIT[unfit])


@pytest.mark.parametrize("rate", [Rate(0, 1, 1), Rate(5, 4, 1), Rate(1, 10**15, 10**9)])
def test_a_rate_that_stores_cannot_reckon_with_is_refused(rate: Rate) -> None:
    with pytest.raises(RequestInvalid):
        request_bytes(LimitQueueRequest("q", QueueRules(rate=rate)))


@pytest.mark.parametrize("text", ["", "NaN", "{", '{"a": 1} 2', "'a'"])
def test_arguments_that_are_no_json_are_refused(text: str) -> None:
    for request in (EnqueueRequest([JOB._replace(args=text)]), RepairRequest(JOB.id, text, 1, [])):
        with pytest.raises(RequestInvalid):
            request_bytes(request)


def test_a_request_that_is_too_large_is_refused_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_bounds, "LARGEST_REQUEST_BYTES", 1_000)
    with pytest.raises(RequestInvalid, match="at most 1,000 bytes at once"):
        request_bytes(EnqueueRequest([JOB._replace(args='"' + "x" * 1_000 + '"')]))


def test_an_answer_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_answers, "LARGEST_ANSWER_BYTES", 100)
    with pytest.raises(StoreUnavailable, match="request fewer jobs"):
        answer_bytes({"x" * 100: 1})
