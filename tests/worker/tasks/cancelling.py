"""Tasks to be cancelled."""

import asyncio
import contextlib
import queue
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from worker.base import app, soon
from worker.notes import note
from worker.tasks.results import add

from limpet import AttemptStopped, Context


@app.task(retry=soon)
def waits(path: str) -> None:
    note(path, "begin")
    try:
        time.sleep(30)
    except AttemptStopped as stopped:
        note(path, "stopped", cause=stopped.cause.kind)
        raise
    finally:
        note(path, "clean")


@app.task(retry=soon)
async def waits_async(path: str) -> None:
    note(path, "begin")
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        note(path, "stopped")
        await asyncio.sleep(0.05)
        note(path, "awaited")
        raise
    finally:
        note(path, "clean")


@app.task(retry=soon, isolation="process")
async def waits_in_a_process(path: str) -> None:
    note(path, "begin")
    try:
        await asyncio.sleep(30)
    finally:
        note(path, "clean")


@app.task(retry=soon)
def looks(ctx: Context, path: str) -> None:
    """Looks for itself, and leaves by itself."""
    note(path, "begin")
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if ctx.cancelled:
            note(path, "clean")
            return
        time.sleep(0.01)


@app.task(retry=soon)
async def looks_in_a_thread(ctx: Context, path: str) -> None:
    def work() -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if ctx.cancelled:
                note(path, "clean")
                return
            time.sleep(0.01)

    note(path, "begin")
    await asyncio.to_thread(work)


@app.task(retry=soon)
def checks(ctx: Context, path: str) -> None:
    note(path, "begin")
    until = time.monotonic() + 30
    try:
        while time.monotonic() < until:
            ctx.check_cancelled()
            time.sleep(0.01)
    finally:
        note(path, "clean")


@app.task(retry=soon)
def swallows(path: str) -> None:
    """Catches everything, so that only force helps."""
    note(path, "begin")
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with contextlib.suppress(BaseException):
            time.sleep(0.01)
            note(path, "alive")


@app.task(retry=soon)
async def swallows_async(path: str) -> None:
    note(path, "begin")
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with contextlib.suppress(BaseException):
            await asyncio.sleep(0.01)
            note(path, "alive")


@app.task(retry=soon)
def fails_when_stopped(path: str) -> None:
    note(path, "begin")
    try:
        time.sleep(30)
    finally:
        raise ValueError("the cleanup failed")


@app.task(retry=soon)
async def fails_when_stopped_async(path: str) -> None:
    note(path, "begin")
    try:
        await asyncio.sleep(30)
    finally:
        raise ValueError("the cleanup failed")


@app.task(retry=soon)
def catches_exceptions(path: str) -> None:
    """The usual loop around everything, which must not swallow the stop."""
    note(path, "begin")
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            time.sleep(0.05)
        except Exception:
            note(path, "swallowed")


@app.task(retry=soon)
def is_blocked(path: str, how: str) -> None:
    """Waits in one of the places in which programs wait."""
    note(path, "begin")
    try:
        _wait_in(how)
    finally:
        note(path, "clean")


def _wait_in(how: str) -> None:
    match how:
        case "lock":
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        case "queue":
            queue.Queue[int]().get()
        case "program":
            subprocess.run(["sleep", "30"], check=True)
        case "socket":
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.recv(1)
        case "loop":
            asyncio.run(asyncio.sleep(30))
        case "pool":
            with ThreadPoolExecutor(1) as pool:
                pool.submit(time.sleep, 0.5).result()
                queue.Queue[int]().get()
        case "result":
            add.using(delay=60).enqueue(1, 2).result(timeout=30)
