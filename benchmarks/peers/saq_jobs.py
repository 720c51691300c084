"""SAQ's side of the benchmark, on Redis.

python -m peers.saq_jobs work            runs jobs
python -m peers.saq_jobs COMMAND WORD    hands in jobs; the commands are in feeding.py
"""

import asyncio
import logging
import sys
from collections.abc import Sequence
from typing import Any

import orjson
import tally
import uvloop
from peers import environment
from saq import Queue, Worker

queue = Queue.from_url(environment.store, dump=orjson.dumps, load=orjson.loads)


async def noop(ctx: Any, *, payload: object) -> None:
    tally.count()


async def pickup(ctx: Any, *, at: int) -> None:
    tally.pick_up(at)


async def hold(ctx: Any, *, held: str) -> None:
    beats = asyncio.create_task(_beat(ctx["job"])) if environment.tight else None
    await tally.hold_async(held)
    if beats is not None:
        beats.cancel()


async def _beat(job: Any) -> None:
    # With a heartbeat set, the job itself has to give it.
    while True:
        await asyncio.sleep(0.5)
        await job.update()


async def work() -> None:
    options: dict[str, Any] = {"concurrency": 100} if environment.best else {}
    if environment.tight:
        options = {"timers": {"sweep": 1}}
    await queue.connect()
    await Worker(queue, [noop, pickup, hold], **options).start()


async def main() -> None:
    from feeding import AsyncFeed, Payload

    # A finished job is deleted at once, which is faster than keeping it.
    keep: dict[str, Any] = {"ttl": -1}
    again: dict[str, Any] = (
        {"heartbeat": 4, "retries": 5, "timeout": 120} if environment.tight else {}
    )

    # It has no bulk call; it lets 20 of these be under way at a time.
    async def many(jobs: Sequence[Payload]) -> None:
        await asyncio.gather(*(queue.enqueue("noop", payload=job, **keep) for job in jobs))

    await queue.connect()
    await AsyncFeed(
        noop=lambda job: queue.enqueue("noop", payload=job, **keep),
        pickup=lambda at: queue.enqueue("pickup", at=at, **keep),
        # `key` would be the job's own.
        hold=lambda key: queue.enqueue("hold", held=key, **again),
        many=many,
    ).obey()
    await queue.disconnect()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    uvloop.run(work() if sys.argv[1] == "work" else main())
