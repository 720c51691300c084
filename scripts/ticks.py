"""Two schedulers in processes of their own fire the same ticks, under load; some kills hit one.

Run by hand, with `tests` on the Python path: `python scripts/ticks.py redis 1000 10`. Runs on
`sqlite`, `redis`, `valkey` and `postgres`, with 1,000 ticks and 10 kills with -9, and prints the
result as JSON. Time is a number that all processes share, so that both schedulers come at once.
"""

import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from limpet.domain.ids import IdSource
from limpet.domain.job import JobFilter, NewJob
from limpet.domain.schedule import Schedule, Timing
from limpet.maintenance.scheduler import Scheduler
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

SCHEDULERS = 2
MINUTE = 60_000_000
START = 30_000_000 * MINUTE
LOAD = 20
TIMEOUT_SECONDS = 60.0
_CELL = struct.Struct("<q")


class Shared:
    """Numbers that processes share: the current tick, and the last tick that each has seen."""

    def __init__(self, path: Path) -> None:
        path.touch()
        with path.open("r+b") as file:
            file.truncate(_CELL.size * (SCHEDULERS + 1))
            self._map = mmap.mmap(file.fileno(), 0)

    def __getitem__(self, place: int) -> int:
        return int(_CELL.unpack_from(self._map, place * _CELL.size)[0])

    def __setitem__(self, place: int, value: int) -> None:
        _CELL.pack_into(self._map, place * _CELL.size, value)


class SharedClock:
    """A clock on which a minute passes with each tick."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def wall(self) -> int:
        return START + self._shared[0] * MINUTE

    def boot(self) -> int:
        return self.wall()


@dataclass
class Found:
    """The result of a series of ticks."""

    ticks: int = 0
    kills: int = 0
    jobs: int = 0
    fired: int = 0
    troubles: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def summary(self) -> str:
        return (
            f"{self.ticks} ticks, {SCHEDULERS} schedulers, {self.kills} of them killed: "
            f"{self.jobs} jobs in {self.seconds:.0f} s; {len(self.troubles)} troubles"
        )


def schedule_forever(url: str, path: Path, place: int) -> None:
    """One scheduler: run at each new tick, and enqueue other jobs meanwhile."""
    shared = Shared(path)
    clock = SharedClock(shared)
    ids = IdSource(clock)
    with closing(open_store(url, clock)) as store:
        scheduler = Scheduler(store, clock)
        while True:
            while (tick := shared[0]) == shared[place]:
                pass  # no sleep, so that both schedulers come at once
            scheduler.run()
            store.enqueue([NewJob(each, "load", "{}", "load") for each in ids.many(LOAD)])
            shared[place] = tick


def start(url: str, path: Path, place: int) -> "subprocess.Popen[bytes]":
    words = [sys.executable, __file__, "--scheduler", url, str(path), str(place)]
    return subprocess.Popen(words)


def place_of(kind: str, folder: Path) -> str:
    """The URL of an empty store."""
    from servers.empty import (
        empty_postgres,
        empty_redis,
    )  # imported here, because schedulers do not need it

    match kind:
        case "sqlite":
            return f"sqlite:///{folder}/jobs.db?synchronous=normal"
        case "postgres":
            return empty_postgres(kind)
        case _:
            return empty_redis(kind)


def run(kind: str, ticks: int, kills: int, folder: Path) -> Found:
    """Run `ticks` ticks, with `kills` kills spread over them."""
    url = place_of(kind, folder)
    path = folder / "clock"
    shared = Shared(path)
    found = Found()
    began = time.monotonic()
    running: dict[int, subprocess.Popen[bytes]] = {}
    chance = random.Random(ticks)
    killed_at = set(chance.sample(range(2, ticks + 1), kills))
    with closing(open_store(url, SharedClock(shared))) as store:
        store.migrate()
        schedule = Schedule(
            id="s",
            job=NewJob("", "tick", "{}"),
            timing=Timing(every=MINUTE),
            next_at=START + MINUTE,
        )
        store.put_schedule(schedule)
        try:
            for place in range(1, SCHEDULERS + 1):
                running[place] = start(url, path, place)
            for tick in range(1, ticks + 1):
                shared[0] = tick
                found.ticks = tick
                if tick in killed_at:
                    place = chance.choice(sorted(running))
                    time.sleep(chance.uniform(0, 0.005))
                    os.kill(running[place].pid, signal.SIGKILL)
                    running[place].wait()
                    shared[place] = tick
                    running[place] = start(url, path, place)
                    found.kills += 1
                if not _answered(shared, tick, running):
                    found.troubles.append(f"tick {tick}: a scheduler did not answer")
                    break
        finally:
            for process in running.values():
                process.kill()
                process.wait()
        _judge(store, schedule, found)
    found.seconds = round(time.monotonic() - began, 1)
    return found


def _answered(shared: Shared, tick: int, running: "dict[int, subprocess.Popen[bytes]]") -> bool:
    until = time.monotonic() + TIMEOUT_SECONDS
    while any(shared[place] < tick for place in running):
        ended = any(process.poll() is not None for process in running.values())
        if ended or time.monotonic() > until:
            return False
        time.sleep(0.0002)
    return True


def _judge(store: Store, schedule: Schedule, found: Found) -> None:
    expected = {schedule.job_of(START + n * MINUTE).id for n in range(1, found.ticks + 1)}
    there: set[str] = set()
    cursor = None
    while True:
        page = store.jobs(JobFilter(task="tick"), cursor, 1000)
        there |= {job.id for job in page.jobs}
        cursor = page.cursor
        if cursor is None:
            break
    found.jobs = len(there)
    now = store.schedule("s")
    found.fired = now.fired if now else 0
    if there != expected:
        lost, more = len(expected - there), len(there - expected)
        found.troubles.append(f"{lost} ticks have no job, {more} jobs are of no tick")
    if found.fired != found.ticks:
        found.troubles.append(f"{found.fired} ticks were fired, of {found.ticks}")
    found.troubles += [f"{each.invariant}: {each.example}" for each in store.invariants()]


def main() -> int:
    if sys.argv[1] == "--scheduler":
        schedule_forever(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    with tempfile.TemporaryDirectory() as folder:
        found = run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(folder))
    print(json.dumps({**asdict(found), "summary": found.summary}))
    return 1 if found.troubles else 0


if __name__ == "__main__":
    sys.exit(main())
