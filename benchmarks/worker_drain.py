"""How fast one worker drains a queue of no-op jobs, all of them waiting before it starts."""

import subprocess
import time
from collections.abc import Callable

import expected
import lineup
import processes
import tally
from contender import Contender, Place, Trouble
from figures import Figures, at_least, best, ratios, reached, spread, table
from part import Part, run_alone
from peers.catalog import BULLMQ, EVERY, HUEY_SQLITE, ON_REDIS, PGQUEUER, PROCRASTINATE
from peers.peer import Peer
from scale import Scale

RATE = "jobs/s"
SETTLED_RATE = "jobs/s until finished in the store"
OTHERS = "cores busy with other work"
LONGEST_STILL_SECONDS = 20
# Engine → the peers to beat, and by how many times. Of several peers the best one counts.
GOALS: dict[str, list[tuple[str, list[Peer], float]]] = {
    "SQLite": [("Huey on SQLite", [HUEY_SQLITE], 20), ("BullMQ", [BULLMQ], 2)],
    "Redis": [
        ("BullMQ", [BULLMQ], 3),
        ("every Python peer", [each for each in ON_REDIS if each is not BULLMQ], 12),
    ],
    "PostgreSQL": [("PgQueuer", [PGQUEUER], 1.5), ("Procrastinate", [PROCRASTINATE], 20)],
}


def measures(scale: Scale, figures: Figures) -> list[tuple[Contender, Callable[[], None]]]:
    """One drain of each contender."""

    def measure(contender: Contender) -> Callable[[], None]:
        return lambda: measure_drain(contender, scale, figures)

    return [(contender, measure(contender)) for contender in lineup.mixed(lineup.LIMPETS)]


def size(contender: Contender, scale: Scale) -> int:
    """How many jobs to drain: a slow peer gets fewer, so that all drains take about as long."""
    known = expected.PEERS.get(contender.name)
    return min(scale.jobs, int(known.drain * scale.peer_seconds)) if known else scale.jobs


def measure_drain(contender: Contender, scale: Scale, figures: Figures) -> None:
    rates, others = processes.quietest(
        lambda: drain(contender, size(contender, scale)), scale.tries, scale.quiet_timeout_seconds
    )
    for what, rate in rates.items():
        figures.add(contender.name, what, rate)
    figures.add(contender.name, OTHERS, others)


def drain(contender: Contender, jobs: int) -> dict[str, float]:
    """Jobs a second, by each definition of the end."""
    with contender.place() as place:
        place.run(contender.fill(jobs))
        contender.engine.filled(place.url)
        with contender.counting(place) as unfinished:
            worker = place.start(contender.worker())
            seen = _wait_for(jobs, place, worker)
            rates = {RATE: jobs / (seen.last - seen.first) * 1e9}
            if unfinished is not None:
                settled_at = _wait_until_settled(unfinished)
                rates[SETTLED_RATE] = jobs / (settled_at - seen.first) * 1e9
        if (ran := tally.counted(place.folder).jobs) != jobs:
            raise Trouble(f"{jobs} jobs were handed in and {ran} were run.")
    return rates


def _wait_for(jobs: int, place: Place, worker: "subprocess.Popen[bytes]") -> tally.Count:
    """Wait until `jobs` jobs ran; the jobs keep the times, so a rare look costs no precision."""
    before, moved = 0, time.monotonic()
    while True:
        seen = tally.counted(place.folder)
        if seen.jobs >= jobs:
            return seen
        if seen.jobs != before:
            before, moved = seen.jobs, time.monotonic()
        place.must_run(worker)
        if time.monotonic() - moved > LONGEST_STILL_SECONDS:
            raise Trouble(
                f"{seen.jobs} of {jobs} jobs were run, then none for {LONGEST_STILL_SECONDS} s: "
                f"{place.last_words(worker)}"
            )
        time.sleep(0.05)


def _wait_until_settled(unfinished: Callable[[], int]) -> int:
    """When the store showed all jobs as finished."""
    give_up = time.monotonic() + LONGEST_STILL_SECONDS
    while left := unfinished():
        if time.monotonic() > give_up:
            raise Trouble(f"the store shows {left} jobs as not finished.")
        time.sleep(0.002)
    return time.monotonic_ns()


def report(figures: Figures) -> list[str]:
    head = ["one worker", RATE, SETTLED_RATE, "others", "reached"]
    rows = []
    for each in (*lineup.LIMPETS, *EVERY):
        cells = [figures.cell(each.name, what) for what in (RATE, SETTLED_RATE, OTHERS)]
        if isinstance(each, Peer) and not figures.of(each.name, SETTLED_RATE):
            cells[1] = ""
        rows.append([each.name, *cells, _goals(figures, each) if each in lineup.PLAIN else ""])
    return [
        "## Drain of no-op jobs",
        "",
        "Jobs a second from the first job run to the last; then, stricter, from the first job run "
        "until the store shows all of them as finished (PgQueuer: until its table is empty). "
        "Ratios are taken run by run; of several peers, against the one with the best median. "
        "*Others*: cores that were busy with anything else on the machine meanwhile.",
        "",
        *table(head, rows),
    ]


def _goals(figures: Figures, limpet: Contender) -> str:
    rate = figures.of(limpet.name, RATE)
    goals = []
    for whom, peers, times in GOALS[limpet.engine.name]:
        by = ratios(rate, best(figures.of(each.name, RATE) for each in peers))
        goals.append(f"≥ {times:g} times {whom}: {spread(by)}, {reached(at_least(by, times))}")
    return "; ".join(goals)


PART = Part("drain", measures, report)

if __name__ == "__main__":
    run_alone(PART, __doc__)
