"""How much of everything a run takes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """The quick one only shows that the scripts run; its figures mean nothing.

    `runs`: how often each figure is taken, all of them in turn. `jobs`, `slow_jobs`: in a drain,
    and in one of Huey's. `pick_ups`: jobs that an idle worker is given in one run. `kills`: for
    each cause of a recovery. `patience_seconds`, `tries`: how long to wait for a quiet machine
    before a figure, and how often to take it where the machine did not stay quiet.
    """

    runs: int
    jobs: int
    slow_jobs: int
    pick_ups: int
    kills: int
    idle_seconds: float
    patience_seconds: float
    tries: int


FULL = Scale(
    runs=3,
    jobs=30_000,
    slow_jobs=3_000,
    pick_ups=200,
    kills=20,
    idle_seconds=5,
    patience_seconds=20,
    tries=3,
)
QUICK = Scale(
    runs=1,
    jobs=2_000,
    slow_jobs=300,
    pick_ups=20,
    kills=2,
    idle_seconds=1,
    patience_seconds=0,
    tries=1,
)
