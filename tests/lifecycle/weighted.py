"""The tasks that pass the gate, and one beside it that is as much work."""

import os
import time

from lifecycle.base import app, recording, said
from lifecycle.recorder import EVERY_SECONDS, LONGEST_SECONDS

from limpet import Context, Weight

HEAVY_AT_ONCE = 2


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
