"""PgQueuer's side of the benchmark, on PostgreSQL.

python -m peers.pgqueuer_jobs prepare         makes its tables
python -m peers.pgqueuer_jobs work            runs jobs
python -m peers.pgqueuer_jobs COMMAND WORD    hands in jobs; the commands are in feeding.py
"""

import json
import logging
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import tally
import uvloop
from peers import environment
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

OPTIONS: dict[str, dict[str, Any]] = {
    "best": {"batch_size": 200},
    "default": {},
    "tight": {
        "heartbeat_timeout": timedelta(seconds=4),
        "dequeue_timeout": timedelta(seconds=1),
    },
}


async def noop(job: Any) -> None:
    tally.count()


async def pickup(job: Any) -> None:
    tally.pick_up(json.loads(job.payload))


async def hold(job: Any) -> None:
    await tally.hold_async(json.loads(job.payload))


async def prepare() -> None:
    await Queries(AsyncpgDriver(await asyncpg.connect(environment.store))).install()


async def work() -> None:
    queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(environment.store)))
    for function in (noop, pickup, hold):
        queue.entrypoint(function.__name__)(function)
    await queue.run(**OPTIONS[environment.setting])


async def main() -> None:
    from feeding import AsyncFeed, Payload

    # One connection does one thing at a time; callers that come together get a pool.
    together = sys.argv[1] == "together"
    pool = await asyncpg.create_pool(environment.store, min_size=1, max_size=16)
    connection = await pool.acquire()
    queries = Queries(AsyncpgPoolDriver(pool) if together else AsyncpgDriver(connection))

    async def many(jobs: Sequence[Payload]) -> None:
        packed: list[bytes | None] = [json.dumps(job).encode() for job in jobs]
        await queries.enqueue(["noop"] * len(jobs), packed, [0] * len(jobs))

    await AsyncFeed(
        noop=lambda job: queries.enqueue("noop", json.dumps(job).encode()),
        pickup=lambda at: queries.enqueue("pickup", json.dumps(at).encode()),
        hold=lambda key: queries.enqueue("hold", json.dumps(key).encode()),
        many=many,
    ).obey()
    await pool.release(connection)
    await pool.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    uvloop.run({"prepare": prepare, "work": work}.get(sys.argv[1], main)())
