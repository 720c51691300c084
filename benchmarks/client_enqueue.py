"""How fast one process hands in jobs: many in one call, one by one, and from 64 callers."""

from collections.abc import Callable

import expected
import lineup
import processes
import tally
from contender import Contender
from feeding import CALLERS
from figures import Figures, at_least, ratios, reached, spread, table
from part import Part, run_alone
from peers.catalog import BULLMQ, EVERY, PGQUEUER
from peers.peer import Peer
from scale import Scale

BULK, ONE, TOGETHER = "bulk, jobs/s", "one by one, jobs/s", f"{CALLERS} callers, jobs/s"
OTHERS = "cores busy with other work, enqueue"
WAYS = {BULK: "fill", ONE: "one", TOGETHER: "together"}
NO_CALL = "no such call"
# Engine → figure, the peer to beat in it, and by how many times.
GOALS: dict[str, list[tuple[str, Peer, float]]] = {
    "SQLite": [],
    "Redis": [(BULK, BULLMQ, 3), (ONE, BULLMQ, 1)],
    "PostgreSQL": [(BULK, PGQUEUER, 2)],
}
# The kind of a task makes no difference to its enqueue.
LIMPETS = [each for each in lineup.PLAIN if each.kind == "async"]


def measures(scale: Scale, figures: Figures) -> list[tuple[Contender, Callable[[], None]]]:
    def measure(contender: Contender) -> Callable[[], None]:
        return lambda: measure_enqueue(contender, scale, figures)

    return [(contender, measure(contender)) for contender in lineup.mixed(LIMPETS)]


def measure_enqueue(contender: Contender, scale: Scale, figures: Figures) -> None:
    rates, others = processes.quietest(
        lambda: enqueue(contender, scale), scale.tries, scale.quiet_timeout_seconds
    )
    for what, rate in rates.items():
        figures.add(contender.name, what, rate)
    figures.add(contender.name, OTHERS, others)


def enqueue(contender: Contender, scale: Scale) -> dict[str, float]:
    """Jobs a second, by way of enqueueing; no worker runs meanwhile."""
    known = expected.PEERS.get(contender.name)
    rates = {}
    with contender.place() as place:
        for what, way in WAYS.items():
            jobs = scale.single_jobs
            if what == BULK:
                if not contender.has_bulk:
                    continue
                jobs = scale.jobs
                if known is not None and known.bulk is not None:
                    jobs = min(jobs, int(known.bulk * scale.peer_seconds))
            place.run(contender.feed(way, str(jobs)))
            rates[what] = tally.feeding_rate(place.folder)
    return rates


def report(figures: Figures) -> list[str]:
    rows = []
    for each in (*LIMPETS, *EVERY):
        cells = [figures.cell(each.name, what) for what in (*WAYS, OTHERS)]
        if not each.has_bulk:
            cells[0] = NO_CALL
        name = f"Limpet on {each.engine.name}" if each in LIMPETS else each.name
        rows.append([name, *cells, _goals(figures, each) if each in LIMPETS else ""])
    return [
        "## Enqueue",
        "",
        "From one process, with no worker. *Bulk*: in calls of 1,000 or as the peer takes them; "
        "where it has no such call, as many calls under way as it bears, or nothing. *One by one*: "
        "each call returns before the next is made. *Callers*: coroutines, or threads where the "
        "peer has no coroutines, each with one call under way.",
        "",
        *table(["one process", *WAYS, "others", "reached"], rows),
    ]


def _goals(figures: Figures, limpet: Contender) -> str:
    goals = []
    for what, peer, times in GOALS[limpet.engine.name]:
        by = ratios(figures.of(limpet.name, what), figures.of(peer.name, what))
        way = what.partition(",")[0]
        good = reached(at_least(by, times))
        goals.append(f"{way} ≥ {times:g} times {peer.system}: {spread(by)}, {good}")
    return "; ".join(goals)


PART = Part("enqueue", measures, report)

if __name__ == "__main__":
    run_alone(PART, __doc__)
