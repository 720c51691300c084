"""Celery's side of the benchmark, on Redis.

celery --app peers.celery_jobs worker …     runs jobs
python -m peers.celery_jobs COMMAND WORD    hands in jobs; the commands are in feeding.py
"""

from collections.abc import Sequence

import tally
from celery import Celery
from peers import environment

app = Celery("bench", broker=environment.store)
app.conf.update(broker_connection_retry_on_startup=True)
if environment.best:
    app.conf.update(
        task_ignore_result=True, worker_prefetch_multiplier=64, worker_disable_rate_limits=True
    )
if environment.tight:
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        # The last two are read by kombu 5.7; before it, lost jobs are looked for every 100 s.
        broker_transport_options={
            "visibility_timeout": 8,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
        },
    )


def _noop(payload: object) -> None:
    tally.count()


noop = app.task(name="noop")(_noop)
pickup = app.task(name="pickup")(tally.pick_up)
hold = app.task(name="hold")(tally.hold)


def main() -> None:
    from feeding import Feed, Payload

    def many(jobs: Sequence[Payload]) -> None:
        # It has no bulk call; one producer for all of them is the fastest way.
        with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
            for job in jobs:
                noop.apply_async((job,), producer=producer)

    Feed(noop.delay, pickup.delay, hold.delay, many, chunk=1_000_000).obey()


if __name__ == "__main__":
    main()
