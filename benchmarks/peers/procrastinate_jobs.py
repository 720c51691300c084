"""Procrastinate's side of the benchmark, on PostgreSQL.

python -m peers.procrastinate_jobs prepare         makes its tables
python -m peers.procrastinate_jobs work            runs jobs
python -m peers.procrastinate_jobs COMMAND WORD    hands in jobs; the commands are in feeding.py
"""

import logging
import sys
from collections.abc import Sequence
from typing import Any

import tally
import uvloop
from peers import environment
from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=environment.store, min_size=2, max_size=8))


@app.task(name="noop")
async def noop(payload: object) -> None:
    tally.count()


@app.task(name="pickup")
async def pickup(at: int) -> None:
    tally.pick_up(at)


@app.task(name="hold")
async def hold(key: str) -> None:
    await tally.hold_async(key)


if environment.tight:
    # It does not recover jobs by itself; its documentation has users write this.
    @app.periodic(cron="* * * * * */1")
    @app.task(queueing_lock="retry_stalled", pass_context=True, name="retry_stalled")
    async def retry_stalled(context: Any, timestamp: int) -> None:
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=4):
            await app.job_manager.retry_job(job)


OPTIONS: dict[str, dict[str, Any]] = {
    # A finished job is deleted, which is faster than keeping it.
    "best": {"concurrency": 100, "delete_jobs": "successful"},
    "default": {},
    "tight": {
        "concurrency": 10,
        "update_heartbeat_interval": 1,
        "stalled_worker_timeout": 4,
        "fetch_job_polling_interval": 1,
    },
}


async def prepare() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def work() -> None:
    async with app.open_async():
        await app.run_worker_async(install_signal_handlers=False, **OPTIONS[environment.setting])


async def main() -> None:
    from feeding import AsyncFeed, Payload

    async def many(jobs: Sequence[Payload]) -> None:
        await noop.batch_defer_async(*({"payload": job} for job in jobs))

    async with app.open_async():
        await AsyncFeed(
            noop=lambda job: noop.defer_async(payload=job),
            pickup=lambda at: pickup.defer_async(at=at),
            hold=lambda key: hold.defer_async(key=key),
            many=many,
        ).obey()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    uvloop.run({"prepare": prepare, "work": work}.get(sys.argv[1], main)())
