"""Tasks on several queues that say when they run."""

import asyncio
import time

from worker.base import app
from worker.notes import note


@app.task(queue="a")
def in_a(path: str, seconds: float = 0.05) -> None:
    note(path, "begin")
    time.sleep(seconds)
    note(path, "end")


@app.task(queue="a")
async def in_a_async(path: str, seconds: float = 0.05) -> None:
    note(path, "begin")
    await asyncio.sleep(seconds)
    note(path, "end")


@app.task(queue="b")
def in_b(path: str, seconds: float = 0.05) -> None:
    note(path, "begin")
    time.sleep(seconds)
    note(path, "end")


@app.task(queue="c")
def in_c(path: str) -> None:
    note(path, "begin")
    note(path, "end")


@app.task(queue="order")
def numbered(path: str, number: int, seconds: float = 0.0) -> None:
    note(path, "run", number=number)
    time.sleep(seconds)


@app.task(queue="order")
async def numbered_async(path: str, number: int) -> None:
    note(path, "run", number=number)


@app.task(queue="order")
def long_one(path: str, seconds: float) -> None:
    note(path, "long")
    time.sleep(seconds)
    note(path, "long end")


@app.task
def moody(seconds: float = 0.0) -> None:
    """Quick as a rule."""
    if seconds:
        time.sleep(seconds)
