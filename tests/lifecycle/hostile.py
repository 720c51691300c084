"""The tasks that misbehave: they fail, hold everybody up, die, leave threads, do not listen."""

import asyncio
import contextlib
import ctypes
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NoReturn

from lifecycle.base import Daemon, app, once, recording, said
from lifecycle.intervals import start_daemon
from lifecycle.recorder import EVERY_SECONDS, LONGEST_SECONDS

from limpet import Context

HOARD_BYTES = 2 << 30

Death = Literal["exit", "segfault", "grow"]


# -- failing


@app.task(retry=once)
def leaves_a_daemon_and_fails(ctx: Context, daemon: Daemon) -> NoReturn:
    with recording(ctx) as record:
        record.write("begin")
        start_daemon(record, LONGEST_SECONDS, bare=daemon == "bare")
    raise ValueError("as it was asked to")


# -- those that let nobody else run


@app.task
def holds_the_gil(ctx: Context, seconds: float) -> int:
    return _hold(ctx, seconds)


@app.task
async def holds_the_gil_and_the_loop(ctx: Context, seconds: float) -> int:
    return _hold(ctx, seconds)


def _hold(ctx: Context, seconds: float) -> int:
    # PyDLL, other than CDLL, keeps the GIL during the call. A signal cuts the sleep short.
    usleep = ctypes.PyDLL(None).usleep
    until = time.monotonic() + seconds
    with recording(ctx) as record:
        record.write("begin")
        while (left := until - time.monotonic()) > 0:
            usleep(ctypes.c_uint(int(left * 1e6)))
        record.write("end")
    return ctx.token


@app.task
async def blocks_its_loop(ctx: Context, seconds: float) -> int:
    with recording(ctx) as record:
        record.run(seconds)
    return ctx.token


@app.task
def spins(ctx: Context, seconds: float, children: int) -> int:
    """Keeps more processes busy than there are cores."""
    until = time.monotonic() + seconds
    with recording(ctx) as record:
        record.write("begin")
        pids = [_busy_child(until) for _ in range(children)]
        sampled = 0.0
        while (now := time.monotonic()) < until:
            if now >= sampled + EVERY_SECONDS:
                sampled = now
                record.write("sample")
        for pid in pids:
            os.waitpid(pid, 0)
        record.write("end")
    return ctx.token


def _busy_child(until: float) -> int:
    pid = os.fork()
    if pid == 0:
        while time.monotonic() < until:
            pass
        os._exit(0)
    return pid


# -- those that end their process


@app.task
def dies(ctx: Context, how: Death, word: str = "") -> None:
    with recording(ctx) as record:
        record.write("begin")
        over = said(word)
        while word and not over():
            record.write("sample")
            time.sleep(EVERY_SECONDS)
        hoard: list[bytes] = []
        while len(hoard) << 23 < HOARD_BYTES:
            _die(how, hoard)
            time.sleep(EVERY_SECONDS)
            record.write("sample")


@app.task
async def dies_in_its_loop(ctx: Context, how: Death, word: str = "") -> None:
    with recording(ctx) as record:
        record.write("begin")
        over = said(word)
        while word and not over():
            record.write("sample")
            await asyncio.sleep(EVERY_SECONDS)
        hoard: list[bytes] = []
        while len(hoard) << 23 < HOARD_BYTES:
            _die(how, hoard)
            await asyncio.sleep(EVERY_SECONDS)
            record.write("sample")


def _die(how: Death, hoard: list[bytes]) -> None:
    if how == "exit":
        os._exit(3)
    if how == "segfault":
        ctypes.string_at(0)
    hoard.append(b"x" * (1 << 23))


# -- those with threads that nobody can end


@app.task(retry=once)
async def waits_for_a_thread(ctx: Context, seconds: float = LONGEST_SECONDS) -> None:
    with recording(ctx) as record:
        record.write("begin")
        await asyncio.to_thread(_write_on, ctx, seconds)


@app.task(retry=once)
async def waits_for_a_pool(ctx: Context, seconds: float = LONGEST_SECONDS) -> None:
    with recording(ctx) as record:
        record.write("begin")
        pool = ThreadPoolExecutor(2)
        await asyncio.get_running_loop().run_in_executor(pool, _write_on, ctx, seconds)


@app.task(retry=once)
def waits_for_a_pool_in_a_lane(ctx: Context, seconds: float = LONGEST_SECONDS) -> None:
    with recording(ctx) as record:
        record.write("begin")
        ThreadPoolExecutor(2).submit(_write_on, ctx, seconds).result()


@app.task(retry=once)
def forgets_a_thread(ctx: Context, seconds: float = LONGEST_SECONDS) -> int:
    """Returns at once, while its thread goes on."""
    with recording(ctx) as record:
        record.write("begin")
        threading.Thread(target=_write_on, args=(ctx, seconds), daemon=True).start()
        record.write("end")
    return ctx.token


def _write_on(ctx: Context, seconds: float) -> None:
    with recording(ctx, "thread") as record:
        record.run(seconds)


# -- those that ignore everything


@app.task
def is_deaf(ctx: Context, word: str) -> int:
    over = said(word)
    with recording(ctx) as record:
        record.write("begin")
        until = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < until and not over():
            with contextlib.suppress(BaseException):
                record.write("sample")
                time.sleep(EVERY_SECONDS)
        record.write("end")
    return ctx.token


@app.task
async def is_deaf_in_its_loop(ctx: Context, word: str) -> int:
    over = said(word)
    with recording(ctx) as record:
        record.write("begin")
        until = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < until and not over():
            with contextlib.suppress(BaseException):
                record.write("sample")
                await asyncio.sleep(EVERY_SECONDS)
        record.write("end")
    return ctx.token


# -- those that end the processes of others


@app.task(retry=once)
def kills(ctx: Context, pid: int, number: int = signal.SIGKILL) -> str:
    """Ends one other executor of its worker, and no other process."""
    with recording(ctx) as record:
        record.write("begin")
        with open(f"/proc/{pid}/comm") as file:
            assert file.read().startswith("limpet-l"), "not an executor"
        os.kill(pid, number)
        record.write("end")
    return "done"


@app.task(retry=once)
def kills_everybody(ctx: Context, outer: str, number: int) -> str:
    """Signals whatever it may; never outside of a pid namespace of its worker's own."""
    with recording(ctx) as record:
        record.write("begin")
        with open("/proc/1/comm") as file:
            first = file.read().strip()
        assert os.readlink("/proc/self/ns/pid") != outer, "not in a pid namespace"
        assert first == "limpet-zygote", "not in that of its worker"
        os.kill(-1, number)
        record.write("end")
    return "done"


@app.task
def kills_itself(ctx: Context) -> None:
    with recording(ctx) as record:
        record.write("begin")
        os.kill(os.getpid(), signal.SIGKILL)
