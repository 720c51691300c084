"""Many jobs, some workers, one of which is killed every second, whole: nothing is lost or doubled.

What the jobs are is said by a `Work` of `lifecycle.work`: plain ones, jobs on keys, a flow. `make
prove` runs it at full size; by hand, with `tests` on the Python path:
`python -m lifecycle.storm --jobs 2000 --workers 3 --kills 30`. Prints what it found as JSON.
"""

import argparse
import json
import os
import random
import sys
import time
from dataclasses import asdict, dataclass, field
from itertools import cycle

from lifecycle.intervals import attempts
from lifecycle.modes import BEST, Case, Mode
from lifecycle.orphans import all_jobs, troubles
from lifecycle.place import PATIENCE_SECONDS, START_SECONDS, Place
from lifecycle.tree import ORDERS, Order, Settings, Worker
from lifecycle.work import Flow, Keyed, Plain, Work
from servers.shared import KINDS

from limpet.domain.event import EventName
from limpet.domain.lease import Lease
from limpet.domain.session import Session, SessionState
from limpet.domain.state import State
from limpet.domain.transition import Complete

SETTINGS = Settings(lease=3.0, lanes=2, async_jobs=8)
# How much work there is, as a share of what could be done until the last kill.
WORK = 1.1
STALE = '"written by a late holder"'


@dataclass
class Found:
    """What a storm left behind, and every trouble."""

    jobs: int = 0
    workers: int = 0
    kills: int = 0
    left_at_last_kill: int = 0
    seconds: float = 0.0
    attempts: int = 0
    orphans: int = 0
    succeeded: int = 0
    stale_writes: int = 0
    stale_refused: int = 0
    lease_lost: int = 0
    longest_recovery_seconds: float = 0.0
    seed: int = 0
    troubles: list[str] = field(default_factory=list)

    def summary(self) -> str:
        return (
            f"{self.jobs} jobs, {self.workers} workers, {self.kills} kills (at the last one "
            f"{self.left_at_last_kill} jobs were left), all finished after "
            f"{self.seconds:.0f} s: {self.succeeded} succeeded in {self.attempts} attempts, "
            f"{self.orphans} of them lost with their worker; longest from kill to recovery "
            f"{self.longest_recovery_seconds:.2f} s; {self.stale_refused} of {self.stale_writes} "
            f"stale writes refused; seed {self.seed}; {len(self.troubles)} troubles"
        )


def storm(
    place: Place, jobs: int, workers: int, kills: int, seed: int, work: Work | None = None
) -> Found:
    """Kill a worker every second, that many times, and judge what is left."""
    chance = random.Random(seed)
    work = work or Plain()
    found = Found(workers=workers, seed=seed)
    # So long that there is work until the last kill, if no worker ever were down.
    slots = work.at_once(workers * (SETTINGS.lanes + SETTINGS.async_jobs))
    found.jobs = work.hand_in(jobs, WORK * kills * slots / jobs, chance)
    running = [place.begin_worker("w", SETTINGS) for _ in range(workers)]
    place.until(lambda: len(_live(place)) == workers, START_SECONDS, "all have a session")
    began = time.monotonic()
    killed: dict[str, float] = {}
    for number, order in zip(range(kills), cycle(ORDERS), strict=False):
        time.sleep(max(0.0, began + number + 1 - time.monotonic()))
        victim = running.pop(chance.randrange(len(running)))
        running.append(place.begin_worker("w", SETTINGS))
        found.left_at_last_kill = place.unfinished()
        _kill(place, victim, order, number + seed, found, killed)
    _finish(place, found)
    found.seconds = time.monotonic() - began
    place.stop()
    found.troubles += troubles(place)
    _judge(place, found, killed, work)
    found.troubles += work.troubles(place)
    return found


def _live(place: Place) -> list[Session]:
    return [each for each in place.store.sessions() if each.state is SessionState.LIVE]


def _kill(
    place: Place, victim: Worker, order: Order, seed: int, found: Found, killed: dict[str, float]
) -> None:
    """Kill a worker, then say as it what it can no longer say."""
    mine = [each for each in _live(place) if each.name == victim.name]
    leases = [lease for each in mine for lease in place.store.held(each.id)]
    at = victim.kill_tree(order, seed)
    found.kills += 1
    for session in mine:
        killed[session.id] = at
    gone = {each.id for each in mine}
    place.until(
        lambda: not gone & {each.id for each in place.store.sessions()},
        PATIENCE_SECONDS,
        f"{victim.name} is known to be dead",
    )
    for session in mine:
        _say_stale(
            place, session.id, [each for each in leases if each.session == session.id], found
        )


def _say_stale(place: Place, session: str, leases: list[Lease], found: Found) -> None:
    (row,) = [each for each in place.store.sessions(with_dead=True) if each.id == session]
    answer = place.store.exchange(session, row.seq + 1, [Complete(each, STALE) for each in leases])
    found.stale_writes += len(leases)
    found.stale_refused += len(answer.rejected)
    if answer.claimed or len(answer.rejected) != len(leases):
        found.troubles.append(f"session {session} is dead and was heard")


def _finish(place: Place, found: Found) -> None:
    last = time.monotonic()
    left, before = -1, -1
    while left and time.monotonic() < last + PATIENCE_SECONDS:
        left = place.unfinished()
        if left != before:
            last, before = time.monotonic(), left
        time.sleep(0.1)
    if left:
        found.troubles.append(f"{left} jobs are not finished, and none was for a while")


def _judge(place: Place, found: Found, killed: dict[str, float], work: Work) -> None:
    recorded = attempts(place.records())
    found.attempts = sum(map(len, recorded.values()))
    there = 0
    for job in all_jobs(place):
        there += 1
        found.succeeded += job.state is State.SUCCEEDED
        found.orphans += job.counters.orphans
        if job.state is not State.SUCCEEDED:
            found.troubles.append(f"job {job.id} is {job.state}: {job.error}")
        elif job.result != work.result_of(job):
            found.troubles.append(f"job {job.id} has a result that its last attempt did not write")
        elif job.counters.failures:
            found.troubles.append(f"job {job.id} was charged with a failure: {job.counters}")
        for event in place.store.events(job.id):
            found.lease_lost += event.event is EventName.LEASE_LOST
            if event.event is EventName.RECOVERED and event.session in killed:
                took = event.at / 1e6 - killed[event.session]
                found.longest_recovery_seconds = max(found.longest_recovery_seconds, took)
    if there != found.jobs:
        found.troubles.append(f"{found.jobs - there} jobs are lost")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--mode", type=Mode, default=BEST)
    parser.add_argument("--store", choices=("sqlite", *KINDS), default="sqlite")
    parser.add_argument("--keys", type=int, default=0, help="spread the jobs over so many keys")
    parser.add_argument("--flow", action="store_true", help="the jobs are children of one")
    given = parser.parse_args()
    os.umask(0)
    place = Place.make(Case(given.mode, given.store))
    try:
        work: Work = Flow() if given.flow else Keyed(given.keys) if given.keys else Plain()
        found = storm(place, given.jobs, given.workers, given.kills, given.seed, work)
    finally:
        place.clear()
    print(json.dumps({**asdict(found), "summary": found.summary()}))
    return 0 if not found.troubles else 1


if __name__ == "__main__":
    sys.exit(main())
