"""Tasks that lose their executor, and the hooks that hear of it."""

import asyncio
import os
import signal
import time

from worker.base import app, soon
from worker.notes import note, notes

from limpet import Cause, Context


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(30)


def _note_cause(ctx: Context, path: str, cause: Cause) -> None:
    note(path, "hook", cause=cause.kind, token=ctx.token, text=str(cause))


@app.task(retry=soon)
def dies_once(ctx: Context, path: str) -> str:
    note(path, "run", token=ctx.token)
    if len(notes(path, "run")) == 1:
        die()
    return "second"


@dies_once.on_orphaned
def dies_once_was_orphaned(ctx: Context, cause: Cause, path: str) -> None:
    _note_cause(ctx, path, cause)


@app.task(retry=soon)
async def dies_once_async(ctx: Context, path: str) -> str:
    note(path, "run", token=ctx.token)
    if len(notes(path, "run")) == 1:
        die()
    return "second"


@dies_once_async.on_orphaned
async def dies_once_async_was_orphaned(path: str, cause: Cause, ctx: Context) -> None:
    await asyncio.sleep(0.01)
    _note_cause(ctx, path, cause)


@app.task(retry=soon)
def dies_then_fails(ctx: Context, path: str) -> str:
    note(path, "run", token=ctx.token)
    which = len(notes(path, "run"))
    if which == 1:
        die()
    if which == 2:
        raise ValueError("the attempt after the loss fails")
    return "third"


@dies_then_fails.on_orphaned
def dies_then_fails_was_orphaned(ctx: Context, cause: Cause, path: str) -> None:
    _note_cause(ctx, path, cause)


@app.task(retry=soon)
def dies_then_waits(ctx: Context, path: str) -> str:
    """Dies, then waits for a drain, then succeeds."""
    note(path, "run", token=ctx.token)
    which = len(notes(path, "run"))
    if which == 1:
        die()
    if which == 2:
        time.sleep(30)
    return "third"


@dies_then_waits.on_orphaned
def dies_then_waits_was_orphaned(ctx: Context, cause: Cause, path: str) -> None:
    _note_cause(ctx, path, cause)


@app.task(retry=soon)
def dies_twice(ctx: Context, path: str) -> str:
    note(path, "run", token=ctx.token)
    if len(notes(path, "run")) <= 2:
        die()
    return "third"


@dies_twice.on_orphaned
def dies_twice_was_orphaned(ctx: Context, cause: Cause, path: str) -> None:
    _note_cause(ctx, path, cause)


@app.task(retry=soon)
def is_poison(ctx: Context, path: str) -> None:
    note(path, "run", token=ctx.token)
    die()


@is_poison.on_orphaned
def is_poison_was_orphaned(ctx: Context, cause: Cause, path: str) -> None:
    _note_cause(ctx, path, cause)


@app.task(retry=soon)
def is_bare_poison(path: str) -> None:
    note(path, "run")
    die()


@app.task(retry=soon)
def has_a_deadly_hook(path: str) -> None:
    note(path, "run")
    die()


@has_a_deadly_hook.on_orphaned
def deadly(path: str) -> None:
    note(path, "hook")
    die()


@app.task(retry=soon)
def has_a_failing_hook(ctx: Context, path: str) -> str:
    note(path, "run", token=ctx.token)
    if len(notes(path, "run")) == 1:
        die()
    return "done"


@has_a_failing_hook.on_orphaned
def failing(path: str) -> None:
    note(path, "hook")
    raise ValueError("the hook failed")
