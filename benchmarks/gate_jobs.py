"""The jobs of gate.py: each fills memory and computes, with a weight or without, soon or late."""

import hashlib
import os
import time

from limpet import App, Context, Weight

app = App()
MEGABYTES = int(os.environ.get("BENCH_MEGABYTES", "500"))
CPU_SECONDS = float(os.environ.get("BENCH_CPU_SECONDS", "2"))
RECORD = os.environ.get("BENCH_RECORD", "")
# A little more than the job takes, for the interpreter and its modules.
WEIGHT = Weight(cpu=1.0, memory=f"{MEGABYTES + 20}MB")


# A late job takes its memory only after this time: later than any grace of the gate for new jobs.
LATE_SECONDS = 6.0


def render(job: str, late: float = 0.0) -> int:
    """Take memory piece by piece, as a decoder does, and compute."""
    _note("begin", job)
    time.sleep(late)
    held = []
    for _ in range(MEGABYTES // 10):
        held.append(bytearray(10_000_000))
        time.sleep(0.005)
    until = time.thread_time() + CPU_SECONDS
    rounds = 0
    while time.thread_time() < until:
        hashlib.sha256(held[rounds % len(held)][:100_000]).digest()
        rounds += 1
    _note("end", job)
    return rounds


def _note(what: str, job: str) -> None:
    with open(RECORD, "a", encoding="utf-8") as record:
        record.write(f"{time.monotonic()} {what} {job}\n")


@app.task(weight=WEIGHT)
def gated(ctx: Context) -> int:
    return render(ctx.job.id)


@app.task(weight=Weight(cpu=0.5, memory=WEIGHT.memory))
def late(ctx: Context) -> int:
    return render(ctx.job.id, LATE_SECONDS)


@app.task
def ungated(ctx: Context) -> int:
    return render(ctx.job.id)
