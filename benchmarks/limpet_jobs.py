"""Limpet's side of the benchmark: the app whose tasks a worker runs.

python limpet_jobs.py COMMAND WORD    hands in jobs; the commands are in feeding.py

BENCH_STORE is the store's URL; BENCH_KIND is `async` or `sync`, the kind of the tasks. BENCH_KEYS:
`own` gives every job of a bulk a key of its own, a number shares so many keys among them.
BENCH_QUEUES: the jobs of a bulk go to these queues in turn, separated by commas.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tally

from limpet import App

if TYPE_CHECKING:
    from feeding import Payload

app = App(os.environ.get("BENCH_STORE"))


@app.task
async def noop_async(user_id: int, email: str, kind: str) -> None:
    tally.count()


@app.task
def noop_sync(user_id: int, email: str, kind: str) -> None:
    tally.count()


@app.task
async def pickup_async(at: int) -> None:
    tally.pick_up(at)


@app.task
def pickup_sync(at: int) -> None:
    tally.pick_up(at)


@app.task
async def hold_async(key: str) -> None:
    await tally.hold_async(key)


@app.task
def hold_sync(key: str) -> None:
    tally.hold(key)


def main() -> None:
    import asyncio

    from feeding import AsyncFeed, Feed

    kind = os.environ["BENCH_KIND"]
    noop, pickup, hold = (app.find(f"{name}_{kind}") for name in ("noop", "pickup", "hold"))

    keys = os.environ.get("BENCH_KEYS", "")
    shared = (
        [noop.using(key=f"key:{number}") for number in range(int(keys))] if keys.isdigit() else ()
    )

    queues = os.environ.get("BENCH_QUEUES", "")
    in_queues = [noop.using(queue=queue) for queue in queues.split(",") if queue]

    def task_for(number: int) -> Any:
        if in_queues:
            return in_queues[number % len(in_queues)]
        if keys == "own":
            return noop.using(key=f"key:{number}")
        return shared[number % len(shared)] if shared else noop

    def many(jobs: "Sequence[Payload]") -> Any:
        return app.enqueue_many(task_for(job["user_id"]).call(**job) for job in jobs)

    if sys.argv[1] == "together":
        feed = AsyncFeed(
            noop=lambda job: task_for(job["user_id"]).aenqueue(**job),
            pickup=lambda at: pickup.aenqueue(at=at),
            hold=lambda key: hold.aenqueue(key=key),
        )
        asyncio.run(feed.obey())
    else:
        Feed(
            noop=lambda job: task_for(job["user_id"]).enqueue(**job),
            pickup=lambda at: pickup.enqueue(at=at),
            hold=lambda key: hold.enqueue(key=key),
            many=many,
            chunk=10_000,
        ).obey()
    app.close()


if __name__ == "__main__":
    main()
