"""A queue with a rate, and some workers who all want its jobs: how many begin in a time.

The store gives jobs out by its own clock, and that count can be judged on any machine. When a job
begins is for its executor to say, and where several of them share a core, those given out in a
quarter of a second may begin together: that count says something only on a machine of one's own.

By hand, with `tests` on the Python path: `python -m lifecycle.rate --seconds 10 --workers 4`.
"""

import argparse
import json
import os
import sys
from bisect import bisect_left
from dataclasses import asdict, dataclass

from lifecycle.app import app
from lifecycle.base import RATE
from lifecycle.modes import BEST, Case
from lifecycle.orphans import all_jobs, troubles
from lifecycle.place import START_SECONDS, Place
from lifecycle.tasks import ticks
from lifecycle.tree import Settings
from servers.shared import KINDS

from limpet.domain.session import SessionState

SETTINGS = Settings(lease=5.0, lanes=1, async_jobs=10)


@dataclass
class Kept:
    """How many jobs the store gave out, how many began, and how many the rate allows."""

    seconds: float
    workers: int
    begun: int
    given_out: int
    allowed: float
    busiest_second: int
    troubles: list[str]

    @property
    def off(self) -> float:
        """The share by which it was missed."""
        return abs(self.begun - self.allowed) / self.allowed

    def summary(self) -> str:
        return (
            f"{self.begun} jobs began in {self.seconds:g} s with {self.workers} workers, "
            f"{self.given_out} were given out, {self.allowed:g} were allowed ({self.off:.1%} off); "
            f"{self.busiest_second} began in the busiest second; {len(self.troubles)} troubles"
        )


def measure(place: Place, seconds: float, workers: int) -> Kept:
    """Count what begins in so many seconds, from the first one on, while there is more to do."""
    for _ in range(workers):
        place.begin_worker("w", SETTINGS)
    place.until(
        lambda: sum(s.state is SessionState.LIVE for s in place.store.sessions()) == workers,
        START_SECONDS,
        "all have a session",
    )
    jobs = round(RATE * (seconds + 1.0))
    app.enqueue_many([ticks.call() for _ in range(jobs)])
    place.until(lambda: place.unfinished() == 0, 3 * seconds + START_SECONDS, "all are over")
    place.stop()
    begins = sorted(each.at for each in place.records() if each.kind == "begin")
    claims = sorted(job.claimed_at for job in all_jobs(place) if job.claimed_at is not None)
    busiest = max(_within(begins[first:], 10**9) for first in range(len(begins)))
    return Kept(
        seconds,
        workers,
        begun=_within(begins, round(seconds * 1e9)),
        given_out=_within(claims, round(seconds * 1e6)),
        allowed=RATE * seconds,
        busiest_second=busiest,
        troubles=troubles(place),
    )


def _within(moments: list[int], time: int) -> int:
    """How many of these moments lie less than that after the first."""
    return bisect_left(moments, moments[0] + time)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--store", choices=("sqlite", *KINDS), default="sqlite")
    given = parser.parse_args()
    os.umask(0)
    place = Place.make(Case(BEST, given.store))
    try:
        kept = measure(place, given.seconds, given.workers)
    finally:
        place.clear()
    print(json.dumps({**asdict(kept), "off": kept.off, "summary": kept.summary()}))
    return 0 if not kept.troubles else 1


if __name__ == "__main__":
    sys.exit(main())
