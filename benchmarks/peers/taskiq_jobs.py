"""taskiq's side of the benchmark, on a stream of Redis.

taskiq worker peers.taskiq_jobs:broker …    runs jobs
python -m peers.taskiq_jobs COMMAND WORD    hands in jobs; the commands are in feeding.py
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import tally
from peers import environment
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import RedisStreamBroker

tight: dict[str, Any] = {
    "idle_timeout": 4_000,
    "unacknowledged_lock_timeout": 2,
    "xread_block": 1_000,
}
# The consumer reads from the start of the stream: jobs wait there before it is up.
broker = RedisStreamBroker(
    environment.store, consumer_id="0", **(tight if environment.tight else {})
).with_serializer(ORJSONSerializer())


@broker.task(task_name="noop")
async def noop(payload: object) -> None:
    tally.count()


@broker.task(task_name="pickup")
async def pickup(at: int) -> None:
    tally.pick_up(at)


@broker.task(task_name="hold")
async def hold(key: str) -> None:
    await tally.hold_async(key)


async def main() -> None:
    from feeding import AsyncFeed, Payload

    # It has no bulk call.
    async def many(jobs: Sequence[Payload]) -> None:
        await asyncio.gather(*(noop.kiq(job) for job in jobs))

    await broker.startup()
    await AsyncFeed(noop.kiq, pickup.kiq, hold.kiq, many, chunk=200).obey()
    await broker.shutdown()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
