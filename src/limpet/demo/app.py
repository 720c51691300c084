"""The app of `limpet demo`: the kinds of jobs that people have, each with a diary.

Every task returns its token, which shows whose result the store kept.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator

from limpet import App, Context, Retry, Unrecoverable
from limpet.demo.diary import SAMPLE_SECONDS, run_of

app = App("sqlite:///demo.db")


@app.task
async def greet(ctx: Context) -> int:
    """Quick: over in a few milliseconds."""
    with run_of(ctx):
        await asyncio.sleep(0.005)
    return ctx.token


@app.task
async def download(ctx: Context, seconds: float, size: int) -> int:
    """Slow: sleeps, as if it waited for a network."""
    with run_of(ctx) as pen:
        for share in _shares(seconds):
            ctx.progress(share * size, size, f"{share * size:.0f} of {size} MB")
            pen.alive()
            await asyncio.sleep(SAMPLE_SECONDS)
        ctx.progress(size, size, f"{size} MB")
    return ctx.token


@app.task
def resize(ctx: Context, seconds: float, photos: int) -> int:
    """Slow: works step by step."""
    with run_of(ctx) as pen:
        for share in _shares(seconds):
            ctx.progress(share * photos, photos, f"photo {share * photos:.0f} of {photos}")
            pen.alive()
            time.sleep(SAMPLE_SECONDS)
        ctx.progress(photos, photos, f"{photos} photos")
    return ctx.token


@app.task
def render(ctx: Context, seconds: float) -> int:
    """CPU-bound: counts primes without a pause."""
    with run_of(ctx) as pen:
        found, number = 0, 1
        for share in _shares(seconds):
            ctx.progress(share, 1, f"{found:,} primes")
            pen.alive()
            step = time.monotonic() + SAMPLE_SECONDS
            while time.monotonic() < step:
                number += 2
                found += all(number % factor for factor in range(3, int(number**0.5) + 1, 2))
        ctx.progress(1, 1, f"{found:,} primes")
    return ctx.token


@app.task
def convert(ctx: Context, seconds: float) -> int:
    """Starts a program, which leaves a daemon behind."""
    command = [sys.executable, "-m", "limpet.demo.program", ctx.job.id, str(ctx.token)]
    with run_of(ctx) as pen, subprocess.Popen([*command, str(seconds)]) as program:
        for share in _shares(seconds):
            ctx.progress(share, 1, "a program and its daemon")
            pen.alive()
            time.sleep(SAMPLE_SECONDS)
        program.wait()
        ctx.progress(1, 1, "the daemon was ended too")
    return ctx.token


@app.task(retry=Retry(attempts=5, backoff="fixed", delay="500ms", jitter=0))
async def pay(ctx: Context) -> int:
    """Fails twice, then succeeds."""
    with run_of(ctx):
        if ctx.attempt <= 2:
            raise ConnectionError("the bank does not answer")
        ctx.progress(1, 1, f"paid at the {ctx.attempt}rd attempt")
    return ctx.token


@app.task
def refund(ctx: Context) -> int:
    """Fails with an error that forbids another attempt."""
    with run_of(ctx):
        raise Unrecoverable("there is no such order")


def _shares(seconds: float) -> Iterator[float]:
    """Shares from 0 up to 1, as `seconds` go by."""
    began = time.monotonic()
    while (share := (time.monotonic() - began) / seconds) < 1:
        yield share
