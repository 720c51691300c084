"""streaq's side of the benchmark, on Redis.

streaq run peers.streaq_jobs:worker         runs jobs
python -m peers.streaq_jobs COMMAND WORD    hands in jobs; the commands are in feeding.py
"""

from collections.abc import Sequence
from typing import Any

import tally
from peers import environment
from streaq import Worker

OPTIONS: dict[str, dict[str, Any]] = {
    "best": {"concurrency": 64, "prefetch": 256},
    "default": {},
    "tight": {"idle_timeout": 4},
}
worker = Worker(
    redis_url=environment.store, anyio_kwargs={"use_uvloop": True}, **OPTIONS[environment.setting]
)


# A finished job is deleted at once and not logged, which is faster than both.
@worker.task(ttl=0, silent=True, timeout=None)
async def noop(payload: object) -> None:
    tally.count()


@worker.task(ttl=0, silent=True)
async def pickup(at: int) -> None:
    tally.pick_up(at)


@worker.task(ttl=0)
async def hold(key: str) -> None:
    await tally.hold_async(key)


async def main() -> None:
    from feeding import AsyncFeed, Payload

    async def many(jobs: Sequence[Payload]) -> None:
        await worker.enqueue_many([noop.enqueue(job) for job in jobs])

    async with worker:
        await AsyncFeed(
            noop=noop.enqueue,
            pickup=pickup.enqueue,
            hold=hold.enqueue,
            many=many,
        ).obey()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
