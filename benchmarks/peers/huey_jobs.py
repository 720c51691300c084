"""Huey's side of the benchmark, on its SQLite storage with the settings it comes with.

huey_consumer peers.huey_jobs.queue     runs jobs
python -m peers.huey_jobs fill COUNT    hands in no-op jobs, one by one: Huey has no bulk call
python -m peers.huey_jobs pickup COUNT  hands in one job at a time, with random pauses
"""

import os
import sys

import pacing
import tally
from huey import SqliteHuey  # type: ignore[import-not-found]

queue = SqliteHuey("bench", filename=os.path.join(os.environ[tally.FOLDER], "huey.db"))


def _noop(payload: dict[str, int]) -> None:
    tally.count()


def _pickup(at: int) -> None:
    tally.pick_up(at)


noop = queue.task(name="noop")(_noop)
pickup = queue.task(name="pickup")(_pickup)


def main() -> None:
    # Run with -m this module is `__main__`, and a task is stored under its module's name; the
    # consumer knows it by the name it imports.
    from peers import huey_jobs as known

    command, count = sys.argv[1], int(sys.argv[2])
    if command == "fill":
        for _ in range(count):
            known.noop({"n": 1})
    else:
        pacing.one_at_a_time(known.pickup, count)


if __name__ == "__main__":
    main()
