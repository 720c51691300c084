"""The sizes of a run."""

import argparse
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Scale:
    """The sizes of a run; the quick one only shows that the scripts run, its figures mean nothing.

    `runs`: how often each figure is taken. `jobs`: jobs of a drain and of a bulk enqueue of Limpet.
    `peer_seconds`: about how long the drain of a peer takes; it has at most `jobs`. `single_jobs`:
    jobs that are enqueued one by one, and by callers at the same time. `pick_ups`: jobs that an
    idle worker gets in one run. `kills`: kills for each cause of a recovery, on each store.
    `peer_kills`: kills of a peer that is set to recover soon. `recovery_seconds`: the longest wait
    for a recovery. `deep`: how many jobs wait, and how many are finished. `quiet_timeout_seconds`,
    `tries`: how long to wait for a quiet machine before a figure, and how often to take the figure
    if the machine did not stay quiet. `only`: take the rows with this in their name.
    """

    runs: int
    jobs: int
    peer_seconds: float
    single_jobs: int
    pick_ups: int
    kills: int
    peer_kills: int
    recovery_seconds: float
    deep: int
    seconds: float
    idle_seconds: float
    quiet_timeout_seconds: float
    tries: int
    only: str = ""


FULL = Scale(
    runs=3,
    jobs=150_000,
    peer_seconds=2.5,
    single_jobs=4_000,
    pick_ups=200,
    kills=7,
    peer_kills=3,
    recovery_seconds=120,
    deep=1_000_000,
    seconds=2,
    idle_seconds=5,
    quiet_timeout_seconds=20,
    tries=3,
)
QUICK = Scale(
    runs=1,
    jobs=2_000,
    peer_seconds=0.5,
    single_jobs=200,
    pick_ups=20,
    kills=2,
    peer_kills=1,
    recovery_seconds=15,
    deep=5_000,
    seconds=0.2,
    idle_seconds=1,
    quiet_timeout_seconds=0,
    tries=1,
)


def from_command_line(description: str | None) -> Scale:
    """The sizes that the command line names."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a smoke run; writes nothing")
    parser.add_argument("--only", default="", help="only rows whose name has this in it")
    given = parser.parse_args()
    return replace(QUICK if given.quick else FULL, only=given.only)
