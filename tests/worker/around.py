"""An app with everything around its attempts: hooks, middleware, context variables."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar

from worker.notes import note

from limpet import App, Context, Retry

app = App("sqlite://")
once = Retry(attempts=1)

HOOKS = os.environ.get("LIMPET_TEST_HOOKS", "/dev/null")

connection: ContextVar[str] = ContextVar("connection", default="none")
pool: ContextVar[str] = ContextVar("pool", default="none")
request: ContextVar[str] = ContextVar("request", default="none")


@app.on_start
def connect() -> None:
    note(HOOKS, "start")
    connection.set(f"connection of {os.getpid()}")
    threading.Thread(target=threading.Event().wait, daemon=True, name="the pool's own").start()


@app.on_start
async def open_pool() -> None:
    await asyncio.sleep(0.01)
    note(HOOKS, "start async", sees=connection.get())
    pool.set(f"pool of {os.getpid()}")


@app.on_stop
def disconnect() -> None:
    note(HOOKS, "stop", sees=connection.get())


@app.on_stop
async def close_pool() -> None:
    await asyncio.sleep(0.01)
    note(HOOKS, "stop async", sees=pool.get())


@app.middleware
def outer(ctx: Context) -> Iterator[None]:
    note(HOOKS, "outer in", job=ctx.job.id, attempt=ctx.attempt)
    request.set(f"request of {ctx.job.id}")
    try:
        yield
    except ValueError as error:
        note(HOOKS, "outer error", job=ctx.job.id, error=str(error))
        raise
    finally:
        note(HOOKS, "outer out", job=ctx.job.id)


@app.middleware
async def middle(ctx: Context) -> AsyncIterator[None]:
    await asyncio.sleep(0)
    note(HOOKS, "middle in", job=ctx.job.id)
    try:
        yield
    finally:
        note(HOOKS, "middle out", job=ctx.job.id)


@app.middleware
def inner(ctx: Context) -> Iterator[None]:
    note(HOOKS, "inner in", job=ctx.job.id)
    if ctx.job.task == "refused":
        raise PermissionError("the middleware refuses")
    yield
    note(HOOKS, "inner out", job=ctx.job.id)


def seen() -> list[str]:
    return [connection.get(), pool.get(), request.get(), str(os.getpid())]


@app.task
def sees() -> list[str]:
    return seen()


@app.task
async def sees_async() -> list[str]:
    await asyncio.sleep(0.01)
    return await asyncio.create_task(_seen())


async def _seen() -> list[str]:
    return seen()


@app.task
async def sets_and_sees(value: str) -> str:
    """What one attempt sets must not be seen by its neighbours."""
    request.set(value)
    await asyncio.sleep(0.05)
    return request.get()


@app.task(retry=once)
def fails() -> None:
    raise ValueError("inside")


@app.task(retry=once)
async def fails_async() -> None:
    raise ValueError("inside")


@app.task(retry=once)
def refused() -> None:
    note(HOOKS, "ran though refused")


@app.task(retry=once)
def is_slow(path: str, seconds: float) -> str:
    import time

    note(path, "begin")
    time.sleep(seconds)
    return "slow"
