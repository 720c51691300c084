"""What the peers did in the figures that the goals were taken from, and whether a run agrees.

Absolute figures differ from machine to machine; what a peer does beside the others should not. A
peer that is far too slow beside them was set or fed badly, and ratios against it mean nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from figures import Figures

# A peer below this share of its ratio to the others voids the run.
LEAST_SHARE = 0.7


WORDS = {"drain": "drain", "bulk": "bulk enqueue", "one": "enqueue one by one"}


@dataclass(frozen=True)
class Rates:
    """Jobs a second: a drain by one worker, bulk enqueue (None: no such call), one by one."""

    drain: float
    bulk: float | None
    one: float


PEERS = {
    "BullMQ on Redis": Rates(12_900, 19_200, 3_900),
    "PgQueuer on PostgreSQL": Rates(11_900, 28_300, 1_300),
    "taskiq on Redis": Rates(2_000, 2_900, 2_000),
    "Dramatiq on Redis": Rates(1_800, None, 3_300),
    "Huey on Redis": Rates(1_400, None, 3_600),
    "arq on Redis": Rates(1_300, 3_800, 2_000),
    "Huey on SQLite": Rates(1_200, None, 2_300),
    "SAQ on Redis": Rates(1_100, 6_500, 3_300),
    "streaq on Redis": Rates(860, 9_400, 2_500),
    "Celery on Redis": Rates(650, 1_400, 1_100),
    "Procrastinate on PostgreSQL": Rates(400, 7_100, 530),
    "DBOS on PostgreSQL": Rates(360, None, 360),
    "RQ on Redis": Rates(140, 7_700, 2_100),
}


def shares(measured: Mapping[str, float], known: Mapping[str, float]) -> dict[str, float]:
    """The ratio of each peer to the others, where 1 is as in the known figures.

    The machine's own speed cancels out: a peer's gain on its known figure is held against the
    median gain of the others.
    """
    gains = {name: measured[name] / known[name] for name in measured if name in known}
    return {
        name: gain / median(other for each, other in gains.items() if each != name)
        for name, gain in gains.items()
        if len(gains) > 1
    }


def too_slow(figures: Figures, what: str, kind: str) -> list[str]:
    """One sentence for each peer that voids the run; `kind` is a field of `Rates`."""
    known = {name: rate for name, rates in PEERS.items() if (rate := getattr(rates, kind))}
    measured = {name: median(row.values()) for name in known if (row := figures.of(name, what))}
    return [
        f"{name}: {WORDS[kind]} is {share:.2f} of its known ratio to the others."
        for name, share in shares(measured, known).items()
        if share < LEAST_SHARE
    ]
