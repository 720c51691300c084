"""The memory of an idle worker, all its processes together."""

import time
from collections.abc import Callable

import lineup
import processes
import tally
from contender import Contender, Place, Trouble
from figures import Figures, at_most, reached, table
from limpet_contender import Limpet
from part import Part, run_alone
from peers.catalog import EVERY
from scale import Scale

FRESH, USED = "MB, just started", "MB, idle again after jobs of both kinds"
COUNT = "processes"
GOAL = 120
JOBS = 1_000
LIMPETS = [each for each in lineup.PLAIN if each.kind == "sync"]


def measures(scale: Scale, figures: Figures) -> list[tuple[Contender, Callable[[], None]]]:
    def measure(contender: Contender) -> Callable[[], None]:
        return lambda: weigh(contender, scale, figures)

    # In the first run only: the memory of a process hardly differs between runs.
    return [] if figures.run else [(each, measure(each)) for each in lineup.mixed(LIMPETS)]


def weigh(contender: Contender, scale: Scale, figures: Figures) -> None:
    name = contender.name
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
            # Also the other kind of task, which runs in other processes.
            place.environment |= {"BENCH_KIND": "async"}
            place.run(contender.fill(JOBS))
            jobs += JOBS
        _wait_for(jobs, place)
        time.sleep(scale.idle_seconds)
        figures.add(name, USED, processes.pss_megabytes(processes.tree(worker.pid)))


def _wait_for(jobs: int, place: Place) -> None:
    give_up = time.monotonic() + 60
    while (done := tally.counted(place.folder).jobs) < jobs:
        if time.monotonic() > give_up:
            raise Trouble(f"only {done} of {jobs} jobs were run within 60 s.")
        time.sleep(0.1)


def report(figures: Figures) -> list[str]:
    rows = []
    for each in (*LIMPETS, *EVERY):
        cells = [figures.cell(each.name, what) for what in (COUNT, FRESH, USED)]
        good = at_most(list(figures.of(each.name, FRESH).values()), GOAL)
        name = f"Limpet on {each.engine.name}" if each in LIMPETS else each.name
        rows.append([name, *cells, f"≤ {GOAL} MB: {reached(good)}" if each in LIMPETS else ""])
    return [
        "## Memory of an idle worker",
        "",
        "PSS summed over the whole tree of processes: Limpet as it comes, the peers as for the "
        "drain. Servers are not counted.",
        "",
        *table(["one worker", COUNT, FRESH, USED, "reached"], rows),
    ]


PART = Part("memory", measures, report)

if __name__ == "__main__":
    run_alone(PART, __doc__)
