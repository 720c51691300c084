"""What an idle worker weighs, all its processes together."""

import time
from collections.abc import Callable

import processes
import tally
from contender import Contender, Place, Trouble
from figures import Figures, at_most, reached, table
from limpet_contender import Limpet
from part import Part, run_alone
from scale import Scale
from worker_drain import BULLMQ, HUEYS

FRESH, USED = "MB, just started", "MB, idle again after jobs of both kinds"
COUNT = "processes"
GOAL = 120
JOBS = 1_000
LIMPET = Limpet("sync", "full")
ORDER: list[Contender] = [LIMPET, HUEYS[0], BULLMQ]
NAMES = {LIMPET.name: "Limpet"}


def measures(scale: Scale, figures: Figures) -> list[tuple[Contender, Callable[[], None]]]:
    def measure(contender: Contender) -> Callable[[], None]:
        return lambda: weigh(contender, scale, figures)

    return [(contender, measure(contender)) for contender in ORDER]


def weigh(contender: Contender, scale: Scale, figures: Figures) -> None:
    name = NAMES.get(contender.name, contender.name)
    with contender.place() as place:
        worker = place.start(contender.worker())
        time.sleep(2 + scale.idle_seconds)
        place.must_run(worker)
        pids = processes.tree(worker.pid)
        figures.add(name, COUNT, len(pids))
        figures.add(name, FRESH, processes.pss_megabytes(pids))
        jobs = JOBS
        place.run(contender.fill(JOBS))
        if isinstance(contender, Limpet):
            other = Limpet("async", contender.synchronous)
            place.run(other.fill(JOBS))
            jobs += JOBS
        _wait_for(jobs, place)
        time.sleep(scale.idle_seconds)
        figures.add(name, USED, processes.pss_megabytes(processes.tree(worker.pid)))


def _wait_for(jobs: int, place: Place) -> None:
    give_up = time.monotonic() + 30
    while (done := tally.counted(place.folder).jobs) < jobs:
        if time.monotonic() > give_up:
            raise Trouble(f"only {done} of {jobs} jobs were run within 30 s.")
        time.sleep(0.1)


def report(figures: Figures) -> list[str]:
    rows = []
    for each in ORDER:
        name = NAMES.get(each.name, each.name)
        cells = [figures.cell(name, what) for what in (COUNT, FRESH, USED)]
        good = at_most(list(figures.of(name, FRESH).values()), GOAL)
        rows.append([name, *cells, f"< {GOAL} MB: {reached(good)}" if each is LIMPET else ""])
    return [
        "## Memory of an idle worker",
        "",
        "PSS summed over the whole tree of processes, with the settings it comes with. Redis, "
        "which BullMQ needs beside its worker, is not counted.",
        "",
        *table(["one worker", COUNT, FRESH, USED, "reached"], rows),
    ]


PART = Part("memory", measures, report)

if __name__ == "__main__":
    run_alone(PART, __doc__)
