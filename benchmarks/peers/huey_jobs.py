"""Huey's side of the benchmark, on SQLite or on Redis as the store's URL says.

huey_consumer peers.huey_jobs.queue …       runs jobs
python -m peers.huey_jobs COMMAND WORD      hands in jobs; the commands are in feeding.py
"""

import tally
from huey import RedisHuey, SqliteHuey
from peers import environment

# Results are not kept, which is faster than keeping them.
options = {"results": not environment.best}
if environment.store.startswith("sqlite:///"):
    file = environment.store.removeprefix("sqlite:///").partition("?")[0]
    queue = SqliteHuey("bench", filename=file, **options)
else:
    queue = RedisHuey("bench", url=environment.store, blocking=True, **options)


def _noop(payload: object) -> None:
    tally.count()


noop = queue.task(name="noop")(_noop)
pickup = queue.task(name="pickup")(tally.pick_up)
hold = queue.task(name="hold")(tally.hold)


def main() -> None:
    # Run with -m this module is `__main__`, and a task is stored under its module's name; the
    # consumer knows it by the name it imports.
    from feeding import Feed
    from peers import huey_jobs as known

    # It has no bulk call.
    Feed(known.noop, known.pickup, known.hold).obey()


if __name__ == "__main__":
    main()
