"""The cost of a heartbeat of a session by the number of jobs that it holds, on each store."""

import time
from collections.abc import Callable

from contender import Contender
from figures import Figures, at_most, quantile, ratios, reached, spread, table
from holder import Holder, fill
from limpet_contender import Limpet
from lineup import PLAIN
from part import Part, run_alone
from scale import Scale

HELD = (0, 10, 1_000)
# The goal is that the number of jobs makes no difference; equal runs differ by up to this factor.
GOAL_TIMES = 1.5
LIMPETS = [each for each in PLAIN if each.kind == "async"]


def holding(jobs: int) -> str:
    return f"ms with {jobs:,} held"


def measures(scale: Scale, figures: Figures) -> list[tuple[Contender, Callable[[], None]]]:
    def measure(limpet: Limpet) -> Callable[[], None]:
        return lambda: renew(limpet, scale, figures)

    return [(each, measure(each)) for each in LIMPETS]


def renew(limpet: Limpet, scale: Scale, figures: Figures) -> None:
    """The sessions alternate, so that a slow minute hits all of them."""
    with limpet.place() as place, limpet.store(place) as store:
        store.migrate()
        holders = {}
        for jobs in HELD:
            fill(store, jobs)
            holders[jobs] = Holder(store)
            holders[jobs].exchange(jobs)
            assert len(holders[jobs].held) == jobs
        times: dict[int, list[float]] = {jobs: [] for jobs in HELD}
        until = time.perf_counter() + scale.seconds
        while time.perf_counter() < until:
            for jobs, holder in holders.items():
                began = time.perf_counter()
                store.renew(holder.session)
                times[jobs].append(time.perf_counter() - began)
    for jobs, seconds in times.items():
        figures.add(limpet.name, holding(jobs), quantile(seconds, 0.5) * 1e3)


def report(figures: Figures) -> list[str]:
    rows = []
    for each in LIMPETS:
        none, most = (figures.of(each.name, holding(jobs)) for jobs in (HELD[0], HELD[-1]))
        slower = ratios(most, none)
        rows.append(
            [
                f"Limpet on {each.engine.name}",
                *(figures.cell(each.name, holding(jobs)) for jobs in HELD),
                spread(slower),
                f"≤ {GOAL_TIMES} times: {reached(at_most(slower, GOAL_TIMES))}",
            ]
        )
    return [
        "## Renewal",
        "",
        "Milliseconds of one renewal of a session's lease, the store called directly; the median.",
        "",
        *table(["store", *map(holding, HELD), f"{HELD[-1]:,} held, times none", "reached"], rows),
    ]


PART = Part("renewal", measures, report)

if __name__ == "__main__":
    run_alone(PART, __doc__)
