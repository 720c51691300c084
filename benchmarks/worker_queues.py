"""How fast one worker drains queues with limits of its own, as people set it up.

The map is the one that people leave other systems for: 20 queues, 84 places. All jobs wait before
the worker starts, the same number in each queue.
"""

from collections.abc import Callable

import processes
import worker_drain
from contender import Contender
from engines import POSTGRES, REDIS, SQLITE, Engine
from figures import Figures, at_least, ratios, reached, spread, table
from limpet_contender import Limpet
from part import Part, run_alone
from peers.catalog import BULLMQ
from scale import Scale

PLACES = (1, 1, 1, 1, 5, 5, 10, 10, 10, 10, 5, 5, 3, 2, 1, 1, 1, 1, 1, 10)
QUEUES = tuple(f"q{number}" for number in range(len(PLACES)))
RATE = worker_drain.RATE
MAP, README, FREE, ONE = "map of 20 queues", "README's -q", "20 queues, no -q", "no -q"
# The case, whom to beat, and by how many times.
GOALS = {MAP: [("BullMQ", 3.0), (FREE, 0.7)], README: [(ONE, 0.9)]}


class WithQueues(Limpet):
    """A worker with `-q` options, fed through the named queues in turn."""

    def __init__(self, case: str, engine: Engine, places: dict[str, int], queues: tuple[str, ...]):
        options = tuple(word for queue, n in places.items() for word in ("-q", f"{queue}={n}"))
        super().__init__("async", engine, options)
        self.name = f"{self.name}, {case}"
        self._queues = queues

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "BENCH_QUEUES": ",".join(self._queues)}


def cases(engine: Engine) -> dict[str, WithQueues]:
    """Every case on that engine."""
    return {
        MAP: WithQueues(MAP, engine, dict(zip(QUEUES, PLACES, strict=True)), QUEUES),
        FREE: WithQueues(FREE, engine, {}, QUEUES),
        README: WithQueues(README, engine, {"b": 50, "c": 1}, ("b",)),
        ONE: WithQueues(ONE, engine, {}, ("b",)),
    }


CASES = {engine.name: cases(engine) for engine in (SQLITE, REDIS, POSTGRES)}
BULLMQ_MAP = BULLMQ.with_queues(dict(zip(QUEUES, PLACES, strict=True)), "the same map")


def measures(scale: Scale, figures: Figures) -> list[tuple[Contender, Callable[[], None]]]:
    def measure(contender: Contender, jobs: int) -> Callable[[], None]:
        return lambda: figures.add(contender.name, RATE, _rate(contender, jobs, scale))

    jobs = min(scale.jobs, 60_000)
    rows: list[tuple[Contender, Callable[[], None]]] = [
        (case, measure(case, jobs)) for of_engine in CASES.values() for case in of_engine.values()
    ]
    rows.insert(len(rows) // 2, (BULLMQ_MAP, measure(BULLMQ_MAP, min(jobs, 20_000))))
    return rows


def _rate(contender: Contender, jobs: int, scale: Scale) -> float:
    rates, _ = processes.quietest(
        lambda: worker_drain.drain(contender, jobs), scale.tries, scale.quiet_timeout_seconds
    )
    return rates[RATE]


def report(figures: Figures) -> list[str]:
    rows = []
    bullmq = figures.of(BULLMQ_MAP.name, RATE)
    for of_engine in CASES.values():
        for case, contender in of_engine.items():
            rate = figures.of(contender.name, RATE)
            goals = []
            for whom, times in GOALS.get(case, []):
                beside = bullmq if whom == "BullMQ" else figures.of(of_engine[whom].name, RATE)
                by = ratios(rate, beside)
                good = reached(at_least(by, times))
                goals.append(f"≥ {times:g} times {whom}: {spread(by)}, {good}")
            rows.append([contender.name, figures.cell(contender.name, RATE), "; ".join(goals)])
    rows.append([BULLMQ_MAP.name, figures.cell(BULLMQ_MAP.name, RATE), ""])
    return [
        "## Queues with limits of the worker",
        "",
        f"No-op jobs a second of one worker. The map: 20 queues with {sum(PLACES)} places "
        f"({' '.join(map(str, PLACES))}), the same number of jobs in each; README's: `-q b=50 -q "
        "c=1`, all jobs in `b`. Ratios are taken run by run.",
        "",
        *table(["one worker", RATE, "reached"], rows),
    ]


PART = Part("queues", measures, report)

if __name__ == "__main__":
    run_alone(PART, __doc__)
