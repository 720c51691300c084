"""Async tasks that use their event loop in every way."""

import asyncio
import os
import time
from collections.abc import AsyncIterator

from worker.base import app, once
from worker.notes import note

from limpet import Context


async def tick(path: str, what: str = "tick") -> None:
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            note(path, what)
            await asyncio.sleep(0.01)
    finally:
        note(path, "tick over")


@app.task(retry=once)
async def leaves_a_task(path: str) -> int:
    _kept.append(asyncio.create_task(tick(path)))
    await asyncio.sleep(0.05)
    return os.getpid()


_kept: list["asyncio.Task[None]"] = []


@app.task(retry=once)
async def leaves_a_stubborn_task(path: str) -> int:
    async def stubborn() -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                note(path, "tick")
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                pass

    _kept.append(asyncio.create_task(stubborn()))
    await asyncio.sleep(0.05)
    return os.getpid()


@app.task(retry=once)
async def groups(path: str) -> list[int]:
    async def one(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(n), name=f"one {n}") for n in range(5)]
    return [task.result() for task in tasks]


@app.task(retry=once)
async def groups_and_fails(path: str) -> None:
    async def fail() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("one of the group")

    async with asyncio.TaskGroup() as group:
        group.create_task(tick(path))
        group.create_task(fail())


@app.task(retry=once)
async def threads() -> list[int]:
    return await asyncio.gather(*(asyncio.to_thread(pow, n, 2) for n in range(20)))


@app.task(retry=once)
async def times_out_inside() -> str:
    try:
        async with asyncio.timeout(0.05):
            await asyncio.sleep(10)
    except TimeoutError:
        return "its own timeout"
    return ""


@app.task(retry=once)
async def shields(path: str) -> str:
    inner = asyncio.ensure_future(tick(path))
    try:
        await asyncio.wait_for(asyncio.shield(inner), 0.05)
    except TimeoutError:
        return "left"
    return ""


@app.task(retry=once)
async def blocks_the_loop(ctx: Context, seconds: float) -> str:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))
    return "unblocked"


@app.task(retry=once)
async def cancels_everybody(path: str) -> str:
    """As a program does at its end, which it thinks this is."""
    note(path, "cancel all")
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()
    await asyncio.sleep(0.01)
    return "all"


@app.task(retry=once)
async def stops_the_loop(path: str) -> None:
    note(path, "run")
    asyncio.get_running_loop().stop()
    await asyncio.sleep(30)


@app.task
async def rests(path: str, seconds: float) -> str:
    note(path, "rest")
    await asyncio.sleep(seconds)
    return "rested"


@app.task(retry=once)
def runs_a_loop_of_its_own() -> int:
    async def inner() -> int:
        await asyncio.sleep(0.01)
        return await asyncio.to_thread(lambda: 42)

    return asyncio.run(inner())


@app.task(retry=once)
async def runs_programs(count: int) -> list[str]:
    async def one(n: int) -> str:
        program = await asyncio.create_subprocess_exec(
            "echo", str(n), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await program.communicate()
        return out.decode().strip()

    return await asyncio.gather(*(one(n) for n in range(count)))


@app.task(retry=once)
async def generates() -> list[int]:
    async def numbers() -> AsyncIterator[int]:
        for n in range(3):
            await asyncio.sleep(0)
            yield n

    return [n async for n in numbers()]


@app.task(retry=once)
async def fails_in_a_callback() -> str:
    def broken() -> None:
        raise ValueError("in a callback")

    asyncio.get_running_loop().call_soon(broken)
    await asyncio.sleep(0.05)
    return "went on"
