"""Limpet's side of the benchmark: the app whose tasks a worker runs.

python limpet_jobs.py fill KIND COUNT      hands in no-op jobs
python limpet_jobs.py pickup KIND COUNT    hands in one job at a time, with random pauses

KIND is `async` or `sync`; BENCH_STORE is the store's URL.
"""

import asyncio
import os
import sys
import time

import pacing
import tally

from limpet import App

app = App(os.environ.get("BENCH_STORE"))


@app.task
async def noop_async(n: int) -> None:
    tally.count()


@app.task
def noop_sync(n: int) -> None:
    tally.count()


@app.task
async def pickup_async(at: int) -> None:
    tally.pick_up(at)


@app.task
def pickup_sync(at: int) -> None:
    tally.pick_up(at)


@app.task
async def hold_async(key: str) -> None:
    """Runs until it is ended from outside; the next attempt ends at once."""
    pulse = tally.begin(key)
    while pulse:
        pulse.beat()
        await asyncio.sleep(0.005)


@app.task
def hold_sync(key: str) -> None:
    """Runs until it is ended from outside; the next attempt ends at once."""
    pulse = tally.begin(key)
    while pulse:
        pulse.beat()
        time.sleep(0.005)


def main() -> None:
    command, kind, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if command == "fill":
        noop = app.find(f"noop_{kind}")
        app.enqueue_many([noop.call(n=1) for _ in range(count)])
    else:
        pickup = app.find(f"pickup_{kind}")
        pacing.one_at_a_time(lambda at: pickup.enqueue(at=at), count)
    app.close()


if __name__ == "__main__":
    main()
