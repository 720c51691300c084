"""The cost of a claim on PostgreSQL while another transaction holds an old snapshot open."""

import statistics
import time
from collections.abc import Callable

import psycopg
from contender import Contender, Place
from figures import Figures, ratios, spread, table
from holder import Holder, fill
from limpet_contender import Limpet
from lineup import limpet
from part import Part, run_alone
from scale import Scale

BATCH = 100
POSTGRES = limpet("PostgreSQL")
WITHOUT, FIRST, LAST = "ms without", "ms with it, first tenth", "ms with it, last tenth"
JOBS = "jobs settled meanwhile"


def measures(scale: Scale, figures: Figures) -> list[tuple[Contender, Callable[[], None]]]:
    return [(POSTGRES, lambda: hold(POSTGRES, scale, figures))]


def hold(limpet: Limpet, scale: Scale, figures: Figures) -> None:
    """The same number of jobs with and without an old snapshot, each on a store of its own."""
    jobs = scale.jobs // BATCH * BATCH
    with limpet.place() as place:
        figures.add(limpet.name, WITHOUT, statistics.median(_exchanges(limpet, place, jobs)))
    with limpet.place() as place, psycopg.connect(place.url) as somebody:
        somebody.execute("set transaction isolation level repeatable read")
        somebody.execute("select 1")
        times = _exchanges(limpet, place, jobs)
        tenth = max(1, len(times) // 10)
        figures.add(limpet.name, FIRST, statistics.median(times[:tenth]))
        figures.add(limpet.name, LAST, statistics.median(times[-tenth:]))
        figures.add(limpet.name, JOBS, jobs)


def _exchanges(limpet: Limpet, place: Place, jobs: int) -> list[float]:
    """Milliseconds of each exchange that settles a batch and claims the next."""
    with limpet.store(place) as store:
        store.migrate()
        fill(store, jobs)
        holder = Holder(store)
        times: list[float] = []
        while True:
            began = time.perf_counter()
            settled = holder.exchange(BATCH)
            if not holder.held:
                return times
            if settled:
                times.append((time.perf_counter() - began) * 1e3)


def report(figures: Figures) -> list[str]:
    name = POSTGRES.name
    slower = ratios(figures.of(name, LAST), figures.of(name, WITHOUT))
    cells = [figures.cell(name, what) for what in (JOBS, WITHOUT, FIRST, LAST)]
    return [
        "## A snapshot held open on PostgreSQL",
        "",
        f"Milliseconds of an exchange that settles {BATCH} jobs and claims {BATCH}, the store "
        "called directly; the median. *With it*: another connection has an open transaction with "
        "an old snapshot all the while, so that nothing can be vacuumed.",
        "",
        *table(
            ["store", JOBS, WITHOUT, FIRST, LAST, "last tenth, times without"],
            [["Limpet on PostgreSQL", *cells, spread(slower)]],
        ),
    ]


PART = Part("snapshot", measures, report)

if __name__ == "__main__":
    run_alone(PART, __doc__)
