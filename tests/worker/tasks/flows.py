"""Tasks that have children, and the children."""

import asyncio
from dataclasses import dataclass
from typing import Literal

from worker.base import app, once
from worker.notes import note

from limpet import App, Context, FanOut, Flow

Failed = Literal["fail", "skip", "keep"]


@dataclass
class Double:
    number: int
    twice: int


@app.task
def leaf(number: int) -> Double:
    return Double(number, 2 * number)


@app.task
async def leaf_async(number: int) -> int:
    return 2 * number


@app.task(retry=once)
def broken_leaf() -> None:
    raise ValueError("a child of sorrow")


@app.task
def gathers(ctx: Context, path: str, count: int, failed: Failed = "fail") -> int:
    """Doubles each number below `count` in a child, and one more is broken unless `fail`."""
    note(path, "run", token=ctx.token, children=len(ctx.children))
    if not ctx.children:
        calls = [leaf.call(number) for number in range(count)]
        ctx.fan_out(calls if failed == "fail" else [*calls, broken_leaf.call()], failed=failed)
    for child in ctx.children:
        if child.error is not None:
            note(path, "error", state=child.state, error=child.error, task=child.task)
    return sum(child.result.twice for child in ctx.children if child.succeeded)


@app.task
async def gathers_async(ctx: Context, path: str, count: int) -> int:
    children = await ctx.achildren()
    note(path, "run", token=ctx.token, children=len(children))
    if not children:
        ctx.fan_out(leaf_async.call(number) for number in range(count))
    return sum(child.result for child in children)


@app.task
async def fans_out_in_a_group(ctx: Context) -> int:
    async def part() -> None:
        raise FanOut([leaf_async.call(4)])

    if not ctx.children:
        async with asyncio.TaskGroup() as group:
            group.create_task(part())
    return len(ctx.children)


@app.task(retry=once)
def fans_out_into_a_broken_one(ctx: Context, path: str) -> None:
    note(path, "run")
    raise FanOut([broken_leaf.call(), leaf.call(1)])


@app.task
def fans_out_twice(ctx: Context) -> list[int]:
    found = [child.result.twice for child in ctx.children]
    if len(found) < 3:
        ctx.fan_out([leaf.call(len(found) + 1)] * (1 + len(found)))
    return found


@app.task
def fans_out_into_a_flow(ctx: Context, path: str) -> int:
    if not ctx.children:
        ctx.fan_out([Flow(sums_up.call(), [leaf.call(n) for n in range(5)]), leaf.call(7)])
    note(path, "tasks", tasks=[child.task for child in ctx.children])
    return len(ctx.children)


@app.task
def sums_up(ctx: Context) -> Double:
    total = sum(child.result.number for child in ctx.children)
    return Double(total, 2 * total)


@app.task
def fans_out_wrongly(how: str) -> None:
    if how == "nothing":
        raise FanOut([])
    if how == "no calls":
        raise FanOut([leaf])
    another = App("sqlite://").task(name="another")(lambda: None)
    raise FanOut([another.call()])


@app.task
def fans_out_and_waits(ctx: Context, path: str) -> int:
    from worker.tasks.cancelling import waits

    note(path, "run")
    if not ctx.children:
        ctx.fan_out([waits.call(path), waits.using(delay="1h").call(path)])
    return len(ctx.children)


@app.task
def hands_in_a_flow(ctx: Context, count: int = 1) -> str:
    """A flow handed in by a job, under its token."""
    return app.flow(sums_up.call(), [leaf.call(3) for _ in range(count)]).id
