"""DBOS's side of the benchmark, on PostgreSQL: a job is a workflow without steps, on a queue.

python -m peers.dbos_jobs prepare         makes its tables
python -m peers.dbos_jobs work            runs jobs
python -m peers.dbos_jobs COMMAND WORD    hands in jobs; the commands are in feeding.py
"""

import os
import sys
import time

import tally
from dbos import DBOS, DBOSClient
from peers import environment


def _noop(payload: object) -> None:
    tally.count()


noop = DBOS.workflow(name="noop")(_noop)
pickup = DBOS.workflow(name="pickup")(tally.pick_up)
hold = DBOS.workflow(name="hold")(tally.hold)


def launch() -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": environment.store,
            "log_level": "ERROR",
            "application_version": "1",
            "executor_id": f"bench-{os.getpid()}",
            "sys_db_pool_size": 20,
        }
    )
    DBOS.launch()


def work() -> None:
    launch()
    poll = 0.02 if environment.best else 1.0
    DBOS.register_queue("bench", polling_interval_sec=poll, worker_concurrency=500)
    while True:
        time.sleep(3600)


def main() -> None:
    from feeding import Feed

    client = DBOSClient(system_database_url=environment.store)

    def enqueue(workflow: str, argument: object) -> object:
        return client.enqueue({"workflow_name": workflow, "queue_name": "bench"}, argument)

    # It has no bulk call.
    Feed(
        noop=lambda job: enqueue("noop", job),
        pickup=lambda at: enqueue("pickup", at),
        hold=lambda key: enqueue("hold", key),
    ).obey()


if __name__ == "__main__":
    {"prepare": launch, "work": work}.get(sys.argv[1], main)()
    # Its threads would keep the process.
    os._exit(0)
