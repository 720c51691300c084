"""The tasks that behave: alone, with children, in a queue with a rate."""

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Callable

from lifecycle.base import Daemon, app, folder, recording, said
from lifecycle.intervals import start_daemon
from lifecycle.recorder import EVERY_SECONDS, LONGEST_SECONDS, Recorder

from limpet import Context
from limpet.domain.cause import Cause


@app.task
async def quick(number: int = 0) -> int:
    return number


@app.task
def quick_sync(number: int = 0) -> int:
    return number


@app.task
async def steady(ctx: Context, seconds: float = LONGEST_SECONDS, word: str = "") -> int:
    """Runs for some time, or until the word; returns its token."""
    with recording(ctx) as record:
        await record.arun(seconds, said(word))
    return ctx.token


@app.task
def steady_sync(
    ctx: Context,
    seconds: float = LONGEST_SECONDS,
    word: str = "",
    child: bool = False,
    daemon: Daemon = "",
) -> int:
    """The same in a lane, with a subprocess that it ends, or with a daemon that it forgets."""
    with recording(ctx) as record, contextlib.ExitStack() as stack:
        if daemon:
            record.write("begin")
            start_daemon(record, LONGEST_SECONDS, bare=daemon == "bare")
            _go_on(record, seconds, said(word))
            return ctx.token
        if child:
            running = subprocess.Popen(record.command("child", LONGEST_SECONDS))
            stack.callback(running.wait)
            stack.callback(running.kill)
        record.run(seconds, said(word))
    return ctx.token


@app.task
def hands_on(ctx: Context, word: str) -> str:
    """Runs until the word, then enqueues another job; returns its id."""
    with recording(ctx) as record:
        record.run(LONGEST_SECONDS, said(word))
        return quick.enqueue().id


def _go_on(record: Recorder, seconds: float, over: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not over():
        record.write("sample")
        time.sleep(EVERY_SECONDS)
    record.write("end")


@steady.on_orphaned
async def steady_was_orphaned(ctx: Context, cause: Cause) -> None:
    _note(ctx, cause)


@steady_sync.on_orphaned
def steady_sync_was_orphaned(ctx: Context, cause: Cause) -> None:
    _note(ctx, cause)


def _note(ctx: Context, cause: Cause) -> None:
    with (folder() / "hooks").open("a") as notes:
        notes.write(f"{ctx.job.id} {ctx.token} {cause.kind}\n")


@app.task
async def hands_in(ctx: Context, word: str) -> int:
    """Enqueues jobs until the word, one after the other; returns how many."""
    over, number = said(word), 0
    with recording(ctx) as record:
        record.write("begin")
        while not over():
            await quick.aenqueue(number=number)
            number += 1
            record.write("sample")
            await asyncio.sleep(5 * EVERY_SECONDS)
        record.write("end")
    return number


# -- with children


@app.task
def gathers(ctx: Context) -> list[int]:
    """Runs after its children, and returns what each of them did."""
    with recording(ctx) as record:
        record.write("begin")
        found = [child.result for child in ctx.children]
        record.write("end")
    return found


@app.task
def fans_out(ctx: Context, children: int, seconds: float = LONGEST_SECONDS) -> int:
    """Its children run in lanes, with a subprocess each; returns how many."""
    with recording(ctx) as record:
        record.write("begin")
        record.write("end")
    if not ctx.children:
        ctx.fan_out([steady_sync.call(seconds=seconds, child=True) for _ in range(children)])
    return len(ctx.children)


@app.task
def fans_out_widely(ctx: Context, children: int) -> int:
    """Its children are quick; returns how many it found."""
    with recording(ctx) as record:
        record.write("begin")
        if not ctx.children:
            ctx.fan_out([quick.call(number=number) for number in range(children)])
        record.write("end")
    return sum(child.succeeded for child in ctx.children)


# -- in a queue with a rate


@app.task(queue="rated")
async def ticks(ctx: Context) -> None:
    with recording(ctx) as record:
        record.write("begin")
        record.write("end")
