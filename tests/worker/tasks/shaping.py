"""Tasks that hold their queue, get another chance, have a breaker, a version, counts."""

import os
import time
from pathlib import Path
from typing import Any

from worker.base import app, once
from worker.notes import note, notes

from limpet import Breaker, Context, Relaunch, Result


@app.task(queue="limited")
def is_limited(ctx: Context, path: str, seconds: float) -> int:
    """The first attempt is told to wait."""
    note(path, "run", failures=ctx.job.failures)
    if ctx.token == 1:
        ctx.rate_limited(str(seconds) + "s")
    return ctx.token


@app.task(queue="limited")
def is_not(path: str) -> None:
    note(path, "other")


class Hopeless(Exception):
    pass


@app.task(retry=once, relaunch=Relaunch(every=0.2, at_most=2, unless=Hopeless))
def fails_until(ctx: Context, path: str, round_: int, hopeless: bool = False) -> int:
    note(path, "run", round=ctx.job.round)
    if ctx.job.round < round_:
        raise (
            Hopeless("never")
            if hopeless and ctx.job.round == 1
            else ValueError(f"round {ctx.job.round}")
        )
    return ctx.job.round


@app.task(retry=once, relaunch=Relaunch(every=0.2, at_most=1), timeout=0.3)
def swallows_its_timeout(ctx: Context, path: str) -> int:
    """Must be ended by force, so that the supervisor alone decides what becomes of it."""
    note(path, "run", round=ctx.job.round)
    until = time.monotonic() + 30
    while ctx.job.round == 1 and time.monotonic() < until:
        try:
            time.sleep(0.01)
        except BaseException:
            continue
    return ctx.job.round


@app.task(
    retry=once,
    queue="breaking",
    breaker=Breaker("api", failure_rate=0.5, least=4, window="30s", probe_after="700ms"),
)
def calls_an_api(path: str, number: int) -> int:
    """Fails for as long as the file is not there."""
    note(path, "run", number=number)
    if not os.path.exists(f"{path}-up"):
        raise ConnectionError("down")
    return number


def comes_up(path: str) -> None:
    Path(f"{path}-up").touch()


@app.task(version=3)
def greets(first: str, last: str, loud: bool) -> str:
    name = f"{first} {last}"
    return name.upper() if loud else name


@greets.upgrade(from_version=1)
def _(args: dict[str, Any]) -> dict[str, Any]:
    first, last = args["name"].split(" ")
    return {"first": first, "last": last}


@greets.upgrade(from_version=2)
def _(args: dict[str, Any]) -> dict[str, Any]:
    return {**args, "loud": True}


@app.task(version=3)
async def lacks_a_step(name: str) -> str:
    return name


@app.task(queue="counting")
def counts(emails: int) -> Result[list[str]]:
    return Result(["a@b.c"], counts={"emails": emails}, warnings=["slow", "late"])


@app.task(queue="counting")
async def counts_without_a_type(emails: int) -> Any:
    return Result({"sent": True}, counts={"emails": emails})


def runs(path: str) -> int:
    return len(notes(path, "run"))
