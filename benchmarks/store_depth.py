"""The cost of a claim beside a million waiting and a million finished jobs, on each store."""

import contextlib
import statistics
from collections.abc import Callable, Iterator

from contender import Contender
from deepening import deepen, exchanges
from figures import Figures, at_most, quantile, reached, spread, table
from holder import Holder
from limpet_contender import Limpet
from lineup import PLAIN
from part import Part, run_alone
from scale import Scale

FEW = 1_000
GOAL_TIMES = 1.5
ROUNDS = 9
BATCHES = (1, 100)
LIMPETS = [each for each in PLAIN if each.kind == "async"]


def shallow(batch: int) -> str:
    return f"batch {batch}, ms at {FEW:,}"


def deep(batch: int) -> str:
    return f"batch {batch}, ms at the depth"


def times(batch: int) -> str:
    return f"batch {batch}, times slower"


DEPTH = "jobs waiting, and as many finished"


def measures(scale: Scale, figures: Figures) -> list[tuple[Contender, Callable[[], None]]]:
    """Measured in the first run only: its rounds are the repetitions."""

    def measure(limpet: Limpet) -> Callable[[], None]:
        return lambda: compare(limpet, scale, figures)

    return [] if figures.run else [(each, measure(each)) for each in LIMPETS]


def compare(limpet: Limpet, scale: Scale, figures: Figures) -> None:
    """The same exchanges on a deep and a shallow store, alternating, refilled to the same depth."""
    other = limpet.engine.apart()
    with (
        contextlib.ExitStack() as last,
        _holder(limpet, FEW) as few,
        _holder(limpet.on(other), scale.deep) as many,
    ):
        if other is not limpet.engine:
            last.callback(other.close)
        figures.add(limpet.name, DEPTH, scale.deep)
        for batch in BATCHES:
            slower = []
            took: dict[str, list[float]] = {shallow(batch): [], deep(batch): []}
            for _ in range(ROUNDS):
                pair = [exchanges(holder, batch, scale.seconds / 3) for holder in (few, many)]
                slower.append(statistics.median(pair[1]) / statistics.median(pair[0]))
                took[shallow(batch)] += pair[0]
                took[deep(batch)] += pair[1]
            for what, seconds in took.items():
                figures.add(limpet.name, what, quantile(seconds, 0.5) * 1e3)
            for figures.run, ratio in enumerate(slower):
                figures.add(limpet.name, times(batch), ratio)
            figures.run = 0


@contextlib.contextmanager
def _holder(limpet: Limpet, depth: int) -> Iterator[Holder]:
    with limpet.place() as place, limpet.store(place) as store:
        store.migrate()
        holder = Holder(store)
        deepen(holder, depth)
        limpet.engine.filled(place.url)
        yield holder


def report(figures: Figures) -> list[str]:
    rows = []
    for each in LIMPETS:
        cells = [figures.cell(each.name, DEPTH)]
        good = []
        for batch in BATCHES:
            slower = list(figures.of(each.name, times(batch)).values())
            cells += [figures.cell(each.name, what) for what in (shallow(batch), deep(batch))]
            cells.append(spread(slower))
            good.append(reached(at_most(slower, GOAL_TIMES)))
        goal = "; ".join(f"batch {batch}: {one}" for batch, one in zip(BATCHES, good, strict=True))
        rows.append([f"Limpet on {each.engine.name}", *cells, f"≤ {GOAL_TIMES} times: {goal}"])
    head = [what for batch in BATCHES for what in (shallow(batch), deep(batch), times(batch))]
    return [
        "## Claim at a depth",
        "",
        "Milliseconds of an exchange that settles a batch and claims the next, the store called "
        f"directly; the median. Ratios are taken round by round, {ROUNDS} of them.",
        "",
        *table(["store", DEPTH, *head, "reached"], rows),
    ]


PART = Part("depth", measures, report)

if __name__ == "__main__":
    run_alone(PART, __doc__)
