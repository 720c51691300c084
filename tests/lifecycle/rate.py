"""A queue with a rate, and some workers who all want its jobs: how many begin in a time.

By hand, with `tests` on the Python path: `python -m lifecycle.rate --seconds 10 --workers 4`.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict, dataclass

from lifecycle.app import RATE, app, ticks
from lifecycle.modes import BEST, Case
from lifecycle.orphans import troubles
from lifecycle.place import START_SECONDS, Place
from lifecycle.tree import Settings
from servers.shared import KINDS

from limpet.domain.session import SessionState

SETTINGS = Settings(lease=5.0, lanes=1, async_jobs=10)


@dataclass
class Kept:
    """How many jobs began, and how many the rate allows."""

    seconds: float
    workers: int
    begun: int
    allowed: float
    busiest_second: int
    troubles: list[str]

    @property
    def off(self) -> float:
        """The share by which it was missed."""
        return abs(self.begun - self.allowed) / self.allowed

    def said(self) -> str:
        return (
            f"{self.begun} jobs began in {self.seconds:g} s with {self.workers} workers, "
            f"{self.allowed:g} were allowed ({self.off:.1%} off); {self.busiest_second} in the "
            f"busiest second; {len(self.troubles)} troubles"
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
    window = round(seconds * 1e9)
    in_time = [at for at in begins if at < begins[0] + window]
    busiest = max(sum(first <= at < first + 10**9 for at in begins) for first in begins)
    return Kept(seconds, workers, len(in_time), RATE * seconds, busiest, troubles(place))


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
    print(json.dumps({**asdict(kept), "off": kept.off, "said": kept.said()}))
    return 0 if not kept.troubles else 1


if __name__ == "__main__":
    sys.exit(main())
