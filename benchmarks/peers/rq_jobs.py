"""RQ's side of the benchmark, on Redis.

python -m peers.rq_jobs work              runs jobs
python -m peers.rq_jobs COMMAND WORD      hands in jobs; the commands are in feeding.py
"""

import sys
from collections.abc import Sequence
from typing import Any

import tally
from peers import environment
from redis import Redis
from rq import Queue, Retry, SimpleWorker, Worker

connection = Redis.from_url(environment.store)
queue = Queue("bench", connection=connection)


def noop(payload: object) -> None:
    tally.count()


def pickup(at: int) -> None:
    tally.pick_up(at)


def hold(key: str) -> None:
    tally.hold(key)


def work() -> None:
    options: dict[str, Any] = {}
    if environment.tight:
        options = {"maintenance_interval": 1, "job_monitoring_interval": 1, "worker_ttl": 30}
    kind = SimpleWorker if environment.best else Worker
    worker = kind([queue], connection=connection, **options)
    worker.log_result_lifespan = False
    worker.work(logging_level="WARNING")


def main() -> None:
    from feeding import Feed, Payload

    # A finished job is deleted at once, which is faster than keeping it.
    keep: dict[str, Any] = {"result_ttl": 0}
    again: dict[str, Any] = {"retry": Retry(max=3)} if environment.tight else {}

    # By name, because this module has another one when it is run. With a pipeline of the caller's
    # a call is one round trip instead of two.
    def one(name: str, word: object) -> None:
        with connection.pipeline() as pipeline:
            queue.enqueue(f"peers.rq_jobs.{name}", word, pipeline=pipeline, **keep)
            pipeline.execute()

    def many(jobs: Sequence[Payload]) -> None:
        queue.enqueue_many(
            [Queue.prepare_data("peers.rq_jobs.noop", (job,), **keep) for job in jobs]
        )

    Feed(
        noop=lambda job: one("noop", job),
        pickup=lambda at: one("pickup", at),
        hold=lambda key: queue.enqueue("peers.rq_jobs.hold", key, **again),
        many=many,
        chunk=500,
    ).obey()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work()
    else:
        main()
