"""Two apps, whose tasks hand in jobs to each other; the test says where each of them lives."""

import os
import time

from worker.notes import note, notes

from limpet import App, LimpetError

left = App(os.environ.get("LIMPET_TEST_LEFT", "sqlite://"))
right = App(os.environ.get("LIMPET_TEST_RIGHT", "sqlite://"))


@left.task
def ping(path: str, hops: int) -> None:
    note(path, "ping", hops=hops)
    if hops:
        pong.enqueue(path, hops - 1)


@right.task
async def pong(path: str, hops: int) -> None:
    note(path, "pong", hops=hops)
    if hops:
        await ping.aenqueue(path, hops - 1)


@left.task
async def asks(number: int) -> int:
    job = await doubles.aenqueue(number)
    return await job.aresult(timeout=15) + 1


@right.task
def doubles(number: int) -> int:
    return halves.enqueue(4 * number).result(timeout=10)


@left.task
async def halves(number: int) -> int:
    return number // 2


@right.task
async def nothing() -> None: ...


@left.task
def floods(path: str) -> str:
    """Hands in jobs of the other app for as long as it may, the first time."""
    note(path, "begin")
    while len(notes(path, "begin")) == 1:
        try:
            nothing.enqueue()
        except LimpetError as error:
            note(path, "refused", error=type(error).__name__)
            time.sleep(30)
        time.sleep(0.001)
    return "second"
