"""Tasks: the context, isolation, what travels with a job, and the orphan hook."""

import asyncio
import functools
import json
import time
import timeit
from typing import Annotated, Any, Optional

import pytest

import limpet
from limpet import App, Cause, Context, InvalidOption, PayloadInvalid, Retry
from limpet.domain.cause import Drained, TooManyOrphans
from limpet.domain.child import ChildResult
from limpet.payload.context import JobView
from limpet.payload.signature import Signature


class NoLink:
    stopping = None

    def progress(self, done: float, total: float | None, note: str) -> None: ...
    def line(self, level: str, message: str) -> None: ...
    def children(self) -> tuple[ChildResult, ...]:
        return ()


CTX = Context(JobView("id", "send", "email", 1, 0, 0, 0), 1, 1, NoLink())


def options_of(job: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(job.refresh().details.options)
    return found


# -- the context


def plain(ctx: Context, to: str) -> None: ...
def last(to: str, ctx: Context) -> None: ...
def by_keyword(to: str, *, ctx: Context) -> None: ...
def maybe(to: str, ctx: Context | None = None) -> None: ...
def older(ctx: Optional[Context], to: str) -> None: ...  # noqa: UP045
def quoted(ctx: "Context", to: str) -> None: ...
def dotted(ctx: "limpet.Context | None", to: str) -> None: ...
def inner(ctx: Optional["Context"], to: str) -> None: ...
def annotated(ctx: Annotated[Context, "mine"], to: str) -> None: ...


def written_in(space: dict[str, Any]) -> Any:
    """A function of a module with those names, whose annotations are texts."""
    source = "from __future__ import annotations\ndef unresolved(ctx: Context, to: str): ..."
    exec(source, space)
    return space["unresolved"]


# As in a module that imports it under `if TYPE_CHECKING:` only.
unresolved = written_in({})


@pytest.mark.parametrize(
    "function",
    [plain, last, by_keyword, maybe, older, quoted, dotted, inner, annotated, unresolved],
    ids=lambda function: function.__name__,
)
def test_a_context_is_found_however_it_is_written_and_never_stored(function: Any) -> None:
    signature = Signature("send", function)
    assert signature.context_name == "ctx"
    assert signature.pack((), {"to": "a"}).args == '{"to":"a"}'
    assert signature.pack(("a",), {}).args == '{"to":"a"}'
    assert signature.unpack('{"to":"a"}') == {"to": "a"}
    with pytest.raises(PayloadInvalid):
        signature.pack((), {"to": "a", "ctx": CTX})


def test_a_function_without_a_context_has_none() -> None:
    class Own: ...

    def other(ctx: str, more: Annotated[Own, "x"]) -> None: ...

    def later(ctx: "Unknown") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert Signature("send", other).context_name is None
    assert Signature("send", later).context_name is None
    own = written_in({"Context": Own})
    assert Signature("send", own).context_name is None, "the user's own class comes first"


def test_a_context_that_cannot_be_given_is_refused() -> None:
    def two(a: Context, b: Context) -> None: ...
    def spread(**ctx: Context) -> None: ...

    for function in (two, spread):
        with pytest.raises(InvalidOption, match="annotate one ordinary parameter with Context"):
            Signature("send", function)


def test_an_argument_cannot_take_the_place_of_the_context() -> None:
    def task(ctx: Context, **rest: int) -> None: ...

    signature = Signature("send", task)
    assert signature.unpack('{"a":1}') == {"a": 1}
    with pytest.raises(PayloadInvalid, match="'ctx' is the context") as caught:
        signature.unpack('{"ctx":1}')
    assert caught.value.field == "ctx"


def test_a_task_with_a_context_is_enqueued_without_and_called_with_one(app: App) -> None:
    @app.task
    async def send(ctx: Context, to: str) -> str:
        return f"{ctx.job.id} {to}"

    @app.task(queue="email")
    def save(to: str, ctx: Context | None = None) -> str:
        return to

    job = send.enqueue(to="a")
    assert job.details.args == '{"to":"a"}'
    assert app.enqueue_many([send.call("a")])[0].details.args == '{"to":"a"}'
    made = send(CTX, to="a")
    assert asyncio.iscoroutine(made)
    assert asyncio.run(made) == "id a"
    assert save("b") == "b"
    assert save("b", ctx=CTX) == "b"


def test_what_is_stored_and_is_no_json_is_a_payload_that_does_not_fit() -> None:
    for text in ("{", "[]", "null", '{"to": 5}', "[" * 100_000):
        with pytest.raises(PayloadInvalid):
            Signature("send", plain).unpack(text)


def test_plain_arguments_are_unpacked_in_a_few_microseconds() -> None:
    def task(ctx: Context, to: str, count: int, flag: bool = False) -> None: ...

    signature = Signature("send", task)
    text = signature.pack((), {"to": "a@b.c", "count": 5, "flag": True}).args
    # Processor time: others on the machine are none of its business.
    timer = time.thread_time
    best = min(timeit.repeat(lambda: signature.unpack(text), timer=timer, number=2_000, repeat=5))
    assert best / 2_000 < 10e-6, "it is done for every job; about 1.2 us is usual"


# -- async, lanes


class Caller:
    async def __call__(self, to: str) -> None: ...


async def asynchronous(to: str, more: int = 0) -> None: ...


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (plain, False),
        (asynchronous, True),
        (functools.partial(asynchronous, more=1), True),
        (functools.partial(plain), False),
        (Caller(), True),
        (functools.partial(Caller()), True),
        (Caller().__call__, True),
    ],
    ids=["def", "async def", "partial", "partial def", "object", "partial object", "method"],
)
def test_async_tasks_are_known_whatever_they_are_made_of(
    app: App, function: Any, is_async: bool
) -> None:
    task = app.task(name="made")(function)
    assert task.is_async is is_async
    assert task.in_lane is not is_async
    assert task.enqueue(to="a").details.args == '{"to":"a"}'


def test_a_callable_without_a_name_must_be_given_one(app: App) -> None:
    with pytest.raises(InvalidOption, match="has no name of its own"):
        app.task(functools.partial(asynchronous))


def test_an_async_task_can_be_put_into_a_process_of_its_own(app: App) -> None:
    @app.task(isolation="process")
    async def work() -> None: ...

    assert work.is_async
    assert work.in_lane
    assert work.using(priority=1).in_lane
    with pytest.raises(InvalidOption, match="unknown option isolation"):
        work.using(isolation="auto")  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match="isolation is 'thread'"):
        app.task(isolation="thread")  # type: ignore[call-overload]


# -- what travels


def test_stall_after_travels_as_seconds(app: App) -> None:
    @app.task(stall_after="2m", timeout="1h")
    def work() -> None: ...

    assert options_of(work.enqueue()) == {"timeout": 3600.0, "stall_after": 120.0}
    assert options_of(work.using(stall_after=None).enqueue()) == {"timeout": 3600.0}


@pytest.mark.parametrize("name", ["timeout", "stall_after"])
@pytest.mark.parametrize("wrong", [0, "0s", "soon", -1, True])
def test_a_limit_that_no_attempt_could_keep_is_refused(app: App, name: str, wrong: Any) -> None:
    with pytest.raises(InvalidOption, match=f"{name} is {wrong!r}"):
        app.task(**{name: wrong})


def test_a_policy_with_code_belongs_to_the_task_and_not_to_a_job(app: App) -> None:
    @app.task(retry=Retry(4, lambda failures, error: 1, retry_on=OSError))
    def work() -> None: ...

    record = options_of(work.using(priority=1).enqueue())["retry"]
    assert (record["attempts"], record["backoff"]) == (4, "custom")
    read = Retry.from_record(record).with_code_of(app.find("work").options.retry)
    assert read == work.options.retry
    with pytest.raises(InvalidOption, match="work: a Retry with .* give it to @app.task"):
        work.using(retry=Retry(give_up_on=OSError))
    assert options_of(work.using(retry=Retry(2)).enqueue())["retry"]["attempts"] == 2


# -- the orphan hook


def test_an_orphan_hook_gets_what_it_declares(app: App) -> None:
    @app.task
    def send(ctx: Context, to: str, copies: int = 1, urgent: bool = False) -> None: ...

    @send.on_orphaned
    def lost(me: Context, cause: Cause, to: str, copies: int) -> tuple[Any, ...]:
        return me, cause, to, copies

    hook = send.orphan_hook
    assert hook is not None
    cause = TooManyOrphans(10)
    assert hook.call(CTX, cause, {"to": "a", "urgent": True}) == (CTX, cause, "a", 1)
    assert hook.call(CTX, cause, {"to": "a", "copies": 3}) == (CTX, cause, "a", 3)
    assert lost(CTX, cause, "a", 1) == (CTX, cause, "a", 1), "it stays an ordinary function"


def test_an_orphan_hook_may_be_async_and_take_nothing_or_everything(app: App) -> None:
    @app.task
    def send(to: str, n: int = 2) -> None: ...

    @app.task
    def other(to: str, **more: int) -> None: ...

    @send.on_orphaned
    async def lost() -> str:
        return "told"

    @other.on_orphaned
    def gone(**arguments: Any) -> dict[str, Any]:
        return arguments

    assert send.orphan_hook is not None
    assert other.orphan_hook is not None
    assert asyncio.run(send.orphan_hook.call(CTX, Drained(), {"to": "a"})) == "told"
    assert other.orphan_hook.call(CTX, Drained(), {"to": "a", "x": 1}) == {"to": "a", "x": 1}


def test_an_orphan_hook_that_could_not_be_called_is_refused(app: App) -> None:
    @app.task
    def send(ctx: Context, to: str) -> None: ...

    def unknown(too: str) -> None: ...
    def positional(to: str, /) -> None: ...
    def spread(*to: str) -> None: ...
    def two(a: Context, b: Context) -> None: ...
    def generator(to: str) -> Any:
        yield

    for function, words in (
        (unknown, "has the parameter 'too'; .* the task's own: to"),
        (positional, "'to' of its orphan hook cannot be passed by name"),
        (spread, "'to' of its orphan hook cannot"),
        (two, "has the parameter 'b'"),
        (generator, "plain or async"),
        (3, "plain or async"),
    ):
        with pytest.raises(InvalidOption, match=words):
            send.on_orphaned(function)  # type: ignore[type-var]
    assert send.orphan_hook is None
    send.on_orphaned(lambda to: None)
    with pytest.raises(InvalidOption, match="has an orphan hook already"):
        send.on_orphaned(lambda: None)


def test_every_job_of_a_task_with_a_hook_says_so(app: App) -> None:
    @app.task(timeout="1m")
    def send() -> None: ...

    before = send.using(priority=1)
    assert "orphan_hook" not in options_of(send.enqueue())
    assert "orphan_hook" not in options_of(before.enqueue())

    @send.on_orphaned
    def lost() -> None: ...

    for task in (send, before, send.using(delay="1s"), app.find("send")):
        assert options_of(task.enqueue()) == {"timeout": 60.0, "orphan_hook": True}
        assert task.orphan_hook is send.orphan_hook
