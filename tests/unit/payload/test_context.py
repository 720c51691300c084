"""What a running task can know and say of itself."""

import asyncio
import logging
import threading
import time
import timeit
from collections.abc import Iterator
from contextvars import copy_context
from datetime import timedelta
from typing import Any

import pytest

from limpet import (
    AttemptStopped,
    Context,
    FanOut,
    InvalidOption,
    RateLimited,
    State,
    Unrecoverable,
    current,
)
from limpet.domain.cause import Cause, Drained
from limpet.domain.child import ChildResult
from limpet.payload.context import JobLogHandler, JobView, running

JOB = JobView("id", "send", "email", round=1, failures=0, orphans=0, strikes=0)


class FakeLink:
    def __init__(self) -> None:
        self.said: list[tuple[float, float | None, str]] = []
        self.lines: list[tuple[str, str]] = []
        self.stopping: Cause | None = None
        self.reads = 0

    def children(self) -> tuple[ChildResult, ...]:
        self.reads += 1
        return (ChildResult("c", "resize", State.SUCCEEDED, 7),)

    def progress(self, done: float, total: float | None, note: str) -> None:
        self.said.append((done, total, note))

    def line(self, level: str, message: str) -> None:
        self.lines.append((level, message))


@pytest.fixture
def link() -> FakeLink:
    return FakeLink()


@pytest.fixture
def ctx(link: FakeLink) -> Context:
    return Context(JOB, 1, 7, link)


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger, handler = logging.getLogger(), JobLogHandler()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield logger
    logger.removeHandler(handler)
    logger.setLevel(before)


def inside(ctx: Context, function: Any) -> Any:
    def run() -> Any:
        running.set(ctx)
        return function()

    return copy_context().run(run)


def test_a_task_sees_its_job_and_its_fence(ctx: Context) -> None:
    assert (ctx.job.id, ctx.job.task, ctx.attempt, ctx.token) == ("id", "send", 1, 7)
    assert repr(ctx) == "<Context id send attempt 1>"


def test_progress_reaches_the_worker(ctx: Context, link: FakeLink) -> None:
    ctx.progress(1)
    ctx.progress(2.5, 10, "half \ud800" + "x" * 5000)
    assert link.said[:1] == [(1, None, "")]
    done, total, note = link.said[1]
    assert (done, total) == (2.5, 10)
    assert note.startswith("half \\ud800")
    assert len(note) < 1200


@pytest.mark.parametrize(
    "wrong",
    [("1",), (True,), (float("nan"),), (float("inf"),), (-1,), (1, "2"), (1, -2), (1, 2, None)],
    ids=str,
)
def test_progress_that_makes_no_sense_is_refused(
    ctx: Context, link: FakeLink, wrong: tuple[Any, ...]
) -> None:
    with pytest.raises(InvalidOption, match="progress: "):
        ctx.progress(*wrong)
    assert not link.said


def test_a_task_can_ask_whether_it_must_stop(ctx: Context, link: FakeLink) -> None:
    seen = [ctx.cancelled]
    ctx.check_cancelled()
    link.stopping = Drained()
    seen.append(ctx.cancelled)
    assert seen == [False, True]
    with pytest.raises(AttemptStopped) as caught:
        ctx.check_cancelled()
    assert caught.value.cause == Drained()


def test_current_finds_the_context_in_coroutines_and_threads_of_the_attempt(ctx: Context) -> None:
    assert current() is None

    async def task() -> tuple[Context | None, Context | None]:
        here = await asyncio.create_task(asyncio.sleep(0, current()))
        return here, await asyncio.to_thread(current)

    assert inside(ctx, lambda: asyncio.run(task())) == (ctx, ctx)
    assert current() is None


def test_lines_of_every_level_go_to_the_job(ctx: Context, link: FakeLink) -> None:
    ctx.log.debug("one %s", 1)
    ctx.log.info("two")
    try:
        raise ValueError("x")
    except ValueError:
        ctx.log.exception("three")
    assert link.lines[:2] == [("debug", "one 1"), ("info", "two")]
    level, text = link.lines[2]
    assert level == "error"
    assert text.startswith("three\nTraceback")
    assert text.endswith("ValueError: x")


def test_lines_also_go_to_the_users_own_logging_and_once_to_the_job(
    ctx: Context, link: FakeLink, root: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    def task() -> None:
        ctx.log.info("hello")
        ctx.log.debug("quiet")

    inside(ctx, task)
    assert link.lines == [("info", "hello"), ("debug", "quiet")]
    (record,) = caplog.records
    assert record.getMessage() == "hello"
    facts = record.__dict__
    assert (facts["job"], facts["task"], facts["queue"]) == ("id", "send", "email")


def test_what_any_library_logs_inside_an_attempt_goes_to_that_job(
    ctx: Context, link: FakeLink, root: logging.Logger
) -> None:
    library = logging.getLogger("some.library")
    library.warning("outside")
    inside(ctx, lambda: library.warning("inside %d", 1))
    other = FakeLink()
    inside(Context(JOB, 1, 8, other), lambda: library.error("another"))
    logging.getLogger("limpet.worker").warning("not the job's")
    assert link.lines == [("warning", "inside 1")]
    assert other.lines == [("error", "another")]


@pytest.mark.filterwarnings("ignore")
def test_the_handler_never_raises_and_never_recurses(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    class Chatty(FakeLink):
        def line(self, level: str, message: str) -> None:
            super().line(level, message)
            logging.getLogger("chatter").warning("again")
            raise OSError("the pipe is gone")

    link = Chatty()
    ctx = Context(JOB, 1, 7, link)
    # What a handler says of its own trouble goes to stderr, and never to the task.
    inside(ctx, lambda: logging.getLogger("library").warning("once"))
    assert link.lines == [("warning", "once")]
    assert "the pipe is gone" in capsys.readouterr().err
    inside(ctx, lambda: ctx.log.warning("twice"))
    assert link.lines[1] == ("warning", "twice")


def test_a_line_whose_arguments_do_not_fit_is_kept_anyway(ctx: Context, link: FakeLink) -> None:
    record = logging.LogRecord("library", logging.INFO, "file", 1, "%d apples", ("x",), None)
    inside(ctx, lambda: JobLogHandler().handle(record))
    assert link.lines[0][0] == "info"
    assert "'%d apples' with ('x',)" in link.lines[0][1]


def test_a_stop_gets_through_the_logging(ctx: Context, link: FakeLink) -> None:
    def stopped(level: str, message: str) -> None:
        raise AttemptStopped(Drained())

    link.line = stopped  # type: ignore[method-assign]
    with pytest.raises(AttemptStopped):
        ctx.log.info("x")


def test_threads_of_an_attempt_may_log_at_once(ctx: Context, link: FakeLink) -> None:
    def talk() -> None:
        for n in range(100):
            ctx.log.info("%d", n)

    threads = [threading.Thread(target=talk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(link.lines) == 400


def test_a_context_costs_next_to_nothing(link: FakeLink) -> None:
    best = min(
        timeit.repeat(
            lambda: Context(JOB, 1, 7, link), timer=time.thread_time, number=10_000, repeat=5
        )
    )
    assert best / 10_000 < 5e-6, "it is made for every job; about 0.3 us is usual"


def test_children_are_read_once_and_only_when_asked_for(ctx: Context, link: FakeLink) -> None:
    assert link.reads == 0
    assert [child.result for child in ctx.children] == [7]
    assert asyncio.run(ctx.achildren()) is ctx.children
    assert link.reads == 1


def test_a_fan_out_ends_the_attempt_with_its_calls(ctx: Context) -> None:
    with pytest.raises(FanOut, match="waits for 2 jobs") as raised:
        ctx.fan_out(iter(["a", "b"]), failed="keep")
    assert (raised.value.calls, raised.value.failed) == (("a", "b"), "keep")


def test_a_fan_out_into_nothing_or_with_another_word_is_not_tried_again(ctx: Context) -> None:
    with pytest.raises(Unrecoverable, match="nothing to wait for"):
        ctx.fan_out([])
    with pytest.raises(Unrecoverable, match='write "fail", "skip" or "keep"'):
        ctx.fan_out(["a"], failed="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize("told", [30, "30s", "30", " 30 "])
def test_a_rate_limit_ends_the_attempt_until_then(ctx: Context, told: Any) -> None:
    with pytest.raises(RateLimited) as raised:
        ctx.rate_limited(told)
    assert raised.value.delay == timedelta(seconds=30)
