"""Tasks that fail, each in its own way."""

import asyncio
from typing import Any

from worker.base import app, soon
from worker.notes import note, notes

from limpet import Context, Retry, RetryAfter, Snooze, Unrecoverable


def begun(ctx: Context, path: str) -> int:
    """Note an attempt; the answer is which one it is, counted from 1."""
    note(path, "run", attempt=ctx.attempt, failures=ctx.job.failures, token=ctx.token)
    return len(notes(path, "run"))


@app.task(retry=soon)
def fails_twice(ctx: Context, path: str) -> int:
    which = begun(ctx, path)
    if which < 3:
        raise ValueError(f"attempt {which}")
    return which


@app.task(retry=soon)
async def fails_twice_async(ctx: Context, path: str) -> int:
    which = begun(ctx, path)
    await asyncio.sleep(0)
    if which < 3:
        raise ValueError(f"attempt {which}")
    return which


@app.task(retry=soon)
def always_fails(ctx: Context, path: str) -> None:
    raise ValueError(f"attempt {begun(ctx, path)}")


@app.task
def fails_by_default(ctx: Context, path: str) -> None:
    begun(ctx, path)
    raise ValueError("as always")


@app.task(retry=Retry(attempts=4, backoff="exponential", delay=0.1, jitter=0))
def doubles(ctx: Context, path: str) -> None:
    begun(ctx, path)
    raise ValueError


@app.task(retry=Retry(attempts=4, backoff="exponential", delay=0.1, cap=0.15, jitter=0))
def doubles_to_a_cap(ctx: Context, path: str) -> None:
    begun(ctx, path)
    raise ValueError


@app.task(retry=Retry(attempts=4, backoff=[0.05, 0.3], jitter=0))
def by_list(ctx: Context, path: str) -> None:
    begun(ctx, path)
    raise ValueError


def asked(failures: int, error: BaseException) -> float:
    return 0.1 * failures if isinstance(error, KeyError) else 0.0


@app.task(retry=Retry(attempts=3, backoff=asked))
def by_function(ctx: Context, path: str) -> None:
    begun(ctx, path)
    raise KeyError("slow")


def broken(failures: int, error: BaseException) -> float:
    raise SystemExit("the function is broken")


@app.task(retry=Retry(attempts=2, backoff=broken, delay=0.05, jitter=0))
def by_a_broken_function(ctx: Context, path: str) -> None:
    begun(ctx, path)
    raise KeyError("x")


class Passing(Exception): ...


class Lasting(Passing): ...


@app.task(
    retry=Retry(
        attempts=3, backoff="fixed", delay=0.02, retry_on=(Passing, OSError), give_up_on=Lasting
    )
)
async def chooses(ctx: Context, path: str, what: str) -> None:
    begun(ctx, path)
    kinds: dict[str, BaseException] = {
        "passing": Passing("p"),
        "lasting": Lasting("l"),
        "subclass": ConnectionResetError("c"),
        "other": ValueError("v"),
    }
    raise kinds[what]


@app.task(retry=soon)
def gives_up(ctx: Context, path: str) -> None:
    begun(ctx, path)
    raise Unrecoverable("the account is closed")


@app.task(retry=soon)
async def gives_up_in_a_group(ctx: Context, path: str) -> None:
    begun(ctx, path)

    async def fail(error: Exception) -> None:
        raise error

    async with asyncio.TaskGroup() as group:
        group.create_task(fail(Unrecoverable("closed")))
        group.create_task(fail(ValueError("also")))


@app.task(retry=Retry(attempts=2, backoff="fixed", delay=60))
def asks_for_a_time(ctx: Context, path: str, seconds: float) -> str:
    if begun(ctx, path) == 1:
        raise RetryAfter(seconds, "rate limited")
    return "later"


@app.task(retry=Retry(attempts=2, backoff="fixed", delay=0.01))
async def always_asks_for_a_time(ctx: Context, path: str) -> None:
    begun(ctx, path)
    raise RetryAfter(0.02)


@app.task(retry=Retry(attempts=1))
def snoozes(ctx: Context, path: str, times: int) -> int:
    which = begun(ctx, path)
    if which <= times:
        raise Snooze(0.05)
    return which


@app.task(retry=Retry(attempts=1))
async def snoozes_async(ctx: Context, path: str, times: int) -> int:
    which = begun(ctx, path)
    if which <= times:
        raise Snooze(0.05)
    return which


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        raise RuntimeError("no text either")


class Unpicklable(Exception):
    def __init__(self, a: int, b: Any) -> None:
        super().__init__(f"{a}")
        self.held = b

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


def odd_error(what: str) -> BaseException:
    kinds: dict[str, BaseException] = {
        "unprintable": Unprintable(),
        "unpicklable": Unpicklable(1, lambda: None),
        "exit": SystemExit(3),
        "exit with an object": SystemExit(Unprintable()),
        "interrupt": KeyboardInterrupt(),
        "generator exit": GeneratorExit(),
        "cancelled": asyncio.CancelledError(),
        "base": BaseException("bare"),
        "group": BaseExceptionGroup("both", [ValueError("v"), KeyboardInterrupt()]),
        "stop iteration": StopIteration(1),
        "surrogate": ValueError("\ud800"),
        "long": ValueError("x" * 10_000_000),
    }
    return kinds[what]


@app.task(retry=soon)
def raises(ctx: Context, path: str, what: str) -> str:
    if begun(ctx, path) == 1:
        raise odd_error(what)
    return "better"


@app.task(retry=soon)
async def raises_async(ctx: Context, path: str, what: str) -> str:
    if begun(ctx, path) == 1:
        raise odd_error(what)
    return "better"


@app.task(retry=soon)
def recurses(ctx: Context, path: str) -> str:
    def deeper(n: int) -> int:
        return deeper(n + 1) + 1

    if begun(ctx, path) == 1:
        deeper(0)
    return "better"
