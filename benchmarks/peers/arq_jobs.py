"""arq's side of the benchmark, on Redis.

python -m peers.arq_jobs work            runs jobs
python -m peers.arq_jobs COMMAND WORD    hands in jobs; the commands are in feeding.py
"""

import asyncio
import logging
import sys
from collections.abc import Sequence
from typing import Any

import tally
import uvloop
from arq import Worker, create_pool
from arq.connections import RedisSettings
from peers import environment


async def noop(ctx: Any, payload: object) -> None:
    tally.count()


async def pickup(ctx: Any, at: int) -> None:
    tally.pick_up(at)


async def hold(ctx: Any, key: str) -> None:
    await tally.hold_async(key)


OPTIONS: dict[str, dict[str, Any]] = {
    "best": {"max_jobs": 200, "keep_result": 0, "poll_delay": 0.01, "queue_read_limit": 1_000},
    "default": {},
    "tight": {"job_timeout": 6, "poll_delay": 0.1},
}


async def work() -> None:
    settings = RedisSettings.from_dsn(environment.store)
    options = OPTIONS[environment.setting]
    worker = Worker([noop, pickup, hold], redis_settings=settings, **options)
    await worker.async_run()


async def main() -> None:
    from feeding import AsyncFeed, Payload

    pool = await create_pool(RedisSettings.from_dsn(environment.store))

    # It has no bulk call.
    async def many(jobs: Sequence[Payload]) -> None:
        await asyncio.gather(*(pool.enqueue_job("noop", job) for job in jobs))

    await AsyncFeed(
        noop=lambda job: pool.enqueue_job("noop", job),
        pickup=lambda at: pool.enqueue_job("pickup", at),
        hold=lambda key: pool.enqueue_job("hold", key),
        many=many,
        chunk=500,
    ).obey()
    await pool.aclose()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    uvloop.run(work() if sys.argv[1] == "work" else main())
