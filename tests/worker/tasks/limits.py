"""Tasks that take too long, politely and not."""

import asyncio
import contextlib
import time

from worker.base import app, once, soon
from worker.notes import note, notes

from limpet import AttemptStopped, Context, Retry


@app.task(timeout=0.3, retry=once)
def sleeps(path: str, seconds: float = 30) -> None:
    note(path, "begin")
    try:
        time.sleep(seconds)
    except AttemptStopped as stopped:
        note(path, "stopped", cause=stopped.cause.kind)
        raise
    finally:
        note(path, "end")


@app.task(timeout=0.3, retry=once)
def spins(path: str, seconds: float = 30) -> None:
    """Never leaves Python, so only between two of its own steps can it be interrupted."""
    note(path, "begin")
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            pass
    finally:
        note(path, "end")


@app.task(timeout=0.3, retry=once)
async def sleeps_async(path: str, seconds: float = 30) -> None:
    note(path, "begin")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note(path, "stopped")
        raise
    finally:
        note(path, "end")


@app.task(timeout=0.3, retry=once)
def ignores(path: str) -> None:
    note(path, "begin")
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with contextlib.suppress(BaseException):
            time.sleep(0.01)
            note(path, "alive")


@app.task(timeout=0.3, retry=once)
async def ignores_async(path: str) -> None:
    note(path, "begin")
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with contextlib.suppress(BaseException):
            await asyncio.sleep(0.01)
            note(path, "alive")


@app.task
async def neighbour(path: str, seconds: float) -> int:
    note(path, "neighbour")
    await asyncio.sleep(seconds)
    return len(notes(path, "neighbour"))


@app.task(timeout=0.3, retry=soon)
def slow_at_first(path: str) -> int:
    note(path, "begin")
    if len(notes(path, "begin")) == 1:
        time.sleep(30)
    return len(notes(path, "begin"))


@app.task(timeout=0.3, retry=soon)
async def slow_at_first_async(path: str) -> int:
    note(path, "begin")
    if len(notes(path, "begin")) == 1:
        await asyncio.sleep(30)
    return len(notes(path, "begin"))


@app.task(stall_after=0.4, retry=once)
def stalls(ctx: Context, path: str, progress: bool) -> str:
    note(path, "begin")
    for step in range(12):
        time.sleep(0.1)
        if progress:
            ctx.progress(step)
    return "done"


@app.task(stall_after=0.4, retry=once)
async def stalls_async(ctx: Context, path: str, progress: bool) -> str:
    note(path, "begin")
    for step in range(12):
        await asyncio.sleep(0.1)
        if progress:
            ctx.progress(step)
    return "done"


@app.task(retry=Retry(attempts=100, backoff="fixed", delay=0.02))
def fails_until_its_deadline(path: str) -> None:
    note(path, "begin")
    raise ValueError


@app.task(retry=Retry(attempts=100, backoff="fixed", delay=0.02))
async def runs_past_its_deadline(path: str) -> None:
    note(path, "begin")
    await asyncio.sleep(30)


@app.task(timeout=0.3, retry=once)
async def cleans_up_slowly(path: str) -> None:
    """Takes longer for its cleanup than the timeout, but not than the grace."""
    try:
        await asyncio.sleep(30)
    finally:
        await asyncio.sleep(0.4)
        note(path, "clean")
