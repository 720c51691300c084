"""The tasks of the lifecycle tests: well-behaved ones, hostile ones, and those in between.

Each says through `lifecycle.intervals` when it ran. A task that takes a `word` goes on until a
file of that name is in the test's folder, so that a test decides when it ends, and how.
"""

import asyncio
import contextlib
import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, NoReturn

from lifecycle.intervals import EVERY_SECONDS, LONGEST_SECONDS, Recorder, start_daemon

from limpet import App, Context, QueueLimit, Retry, Weight
from limpet.domain.cause import Cause

RATE = 50
HEAVY_AT_ONCE = 2

app = App(
    "sqlite://" if "LIMPET_URL" not in os.environ else None,
    queues={"rated": QueueLimit(rate=f"{RATE}/s")},
)
once = Retry(attempts=1)

if os.environ.get("LIMPET_TEST_THREAD"):
    # An app that starts a thread on import cannot be forked.
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()

HOARD_BYTES = 2 << 30

Daemon = Literal["", "marked", "bare"]
Death = Literal["exit", "segfault", "grow"]


def folder() -> Path:
    return Path(os.environ["LIMPET_TEST_FOLDER"])


def said(word: str) -> Callable[[], bool]:
    """Whether the test has said the word; the empty one is never said."""
    if not word:
        return lambda: False
    path = str(folder() / word)
    return lambda: os.path.exists(path)


@contextmanager
def recording(ctx: Context, role: Literal["job", "thread"] = "job") -> Iterator[Recorder]:
    with closing(Recorder(folder() / "records", ctx.job.id, ctx.token, role)) as recorder:
        yield recorder


# -- well-behaved


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


# -- with a weight


def _compute(ctx: Context, seconds: float) -> int:
    """Keeps one core busy."""
    until, sampled = time.monotonic() + seconds, 0.0
    with recording(ctx) as record:
        record.write("begin")
        while (now := time.monotonic()) < until:
            if now >= sampled + EVERY_SECONDS:
                sampled = now
                record.write("sample")
        record.write("end")
    return ctx.token


@app.task
def computes(ctx: Context, seconds: float) -> int:
    return _compute(ctx, seconds)


@app.task(weight=Weight(cpu=(os.cpu_count() or 1) / HEAVY_AT_ONCE))
def computes_at_the_gate(ctx: Context, seconds: float) -> int:
    """So many of them fill this machine, whatever it has."""
    return _compute(ctx, seconds)


@app.task(heavy=True)
def fills_its_host(ctx: Context, word: str) -> int:
    with recording(ctx) as record:
        record.run(LONGEST_SECONDS, said(word))
    return ctx.token


@app.task(weight=Weight(cpu=50_000))
def weighs_more_than_any_host(ctx: Context) -> int:
    return ctx.token


@app.task(weight=Weight(cpu=0.1), on_pressure="release")
def gives_way(ctx: Context, word: str) -> int:
    with recording(ctx) as record:
        record.run(LONGEST_SECONDS, said(word))
    return ctx.token


@app.task(weight=Weight(cpu=0.1))
def stays(ctx: Context, word: str) -> int:
    with recording(ctx) as record:
        record.run(LONGEST_SECONDS, said(word))
    return ctx.token


@app.task(weight=Weight(memory="64MiB"))
def holds_memory(ctx: Context, word: str) -> int:
    """Begins on a machine however busy its CPU is."""
    held = bytearray(64 << 20)
    with recording(ctx) as record:
        record.run(LONGEST_SECONDS, said(word))
    return len(held)


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
