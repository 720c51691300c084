"""How soon an idle worker starts a job: from just before `enqueue` is called to the job's start."""

from collections.abc import Callable

import lineup
import pacing
import processes
import tally
from contender import Contender, Trouble
from figures import Figures, at_most, quantile, reached, table
from part import Part, run_alone
from peers.catalog import EVERY
from scale import Scale

P50, P99, MOST = "pick-up p50, ms", "pick-up p99, ms", "slowest, ms"
OTHERS = "cores busy with other work, pick-up"
P50_GOAL, P99_GOAL = 2, 10


def measures(scale: Scale, figures: Figures) -> list[tuple[Contender, Callable[[], None]]]:
    def measure(contender: Contender) -> Callable[[], None]:
        return lambda: measure_pick_up(contender, scale, figures)

    return [(contender, measure(contender)) for contender in lineup.mixed(lineup.PLAIN)]


def measure_pick_up(contender: Contender, scale: Scale, figures: Figures) -> None:
    times, others = processes.quietest(
        lambda: pick_up(contender, scale.pick_ups), min(2, scale.tries), scale.quiet_timeout_seconds
    )
    figures.add(contender.name, P50, quantile(times, 0.5))
    figures.add(contender.name, P99, quantile(times, 0.99))
    figures.add(contender.name, MOST, max(times))
    figures.add(contender.name, OTHERS, others)


def pick_up(contender: Contender, jobs: int) -> list[float]:
    """Milliseconds of each."""
    with contender.place() as place:
        worker = place.start(contender.worker())
        place.feed(worker, contender.pick_up(jobs + pacing.WARM_UP), seconds=30 + jobs * 0.5)
        times = tally.pick_ups(place.folder)[pacing.WARM_UP :]
    if len(times) != jobs:
        raise Trouble(f"{jobs} jobs were handed in and {len(times)} were picked up.")
    return times


def report(figures: Figures) -> list[str]:
    head = ["an idle worker", P50, P99, MOST, "others", "reached"]
    rows = []
    for each in (*lineup.PLAIN, *EVERY):
        cells = [figures.cell(each.name, what) for what in (P50, P99, MOST, OTHERS)]
        good = [
            at_most(list(figures.of(each.name, P50).values()), P50_GOAL),
            at_most(list(figures.of(each.name, P99).values()), P99_GOAL),
        ]
        goal = f"p50 ≤ {P50_GOAL}: {reached(good[0])}; p99 ≤ {P99_GOAL}: {reached(good[1])}"
        rows.append([each.name, *cells, goal if each in lineup.PLAIN else ""])
    return [
        "## Pick-up",
        "",
        "From just before `enqueue` is called in one process to the start of the job in the "
        f"worker, one job at a time, with random pauses of {pacing.LEAST_PAUSE_SECONDS * 1e3:.0f} "
        f"to {pacing.MOST_PAUSE_SECONDS * 1e3:.0f} ms.",
        "",
        *table(head, rows),
    ]


PART = Part("pick-up", measures, report)

if __name__ == "__main__":
    run_alone(PART, __doc__)
