"""How fast one worker drains a queue of no-op jobs, all of them waiting before it starts."""

import subprocess
import time
from collections.abc import Callable

import processes
import tally
from contender import Contender, Place, Trouble
from figures import Figures, at_least, best, ratios, reached, spread, table
from limpet_contender import Limpet, succeeded
from part import Part, run_alone
from peers.bullmq_contender import BullMQ
from peers.huey_contender import Huey
from scale import Scale

RATE = "jobs/s"
SETTLED_RATE = "jobs/s until finished in the store"
OTHERS = "cores busy with other work"
OF_HUEY, OF_BULLMQ = 20, 2
LONGEST_STILL_SECONDS = 20

LIMPETS = [Limpet(kind, how) for how in ("full", "normal") for kind in ("async", "sync")]
HUEYS = [Huey(1), Huey(2), Huey(4), Huey(8)]
BULLMQ = BullMQ(100)
# Peers between Limpet's rows, so that a slow minute of the machine does not hit one side only.
ORDER: list[Contender] = [LIMPETS[0], BULLMQ, LIMPETS[1], *HUEYS, LIMPETS[2], LIMPETS[3]]


def measures(scale: Scale, figures: Figures) -> list[tuple[Contender, Callable[[], None]]]:
    """One drain of each contender."""

    def measure(contender: Contender) -> Callable[[], None]:
        jobs = scale.slow_jobs if isinstance(contender, Huey) else scale.jobs
        return lambda: measure_drain(contender, jobs, scale, figures)

    return [(contender, measure(contender)) for contender in ORDER]


def measure_drain(contender: Contender, jobs: int, scale: Scale, figures: Figures) -> None:
    rates, others = processes.quietest(
        lambda: drain(contender, jobs), scale.tries, scale.patience_seconds
    )
    for what, rate in rates.items():
        figures.add(contender.name, what, rate)
    figures.add(contender.name, OTHERS, others)


def drain(contender: Contender, jobs: int) -> dict[str, float]:
    """Jobs a second, by what is taken as the end."""
    with contender.place() as place:
        place.run(contender.fill(jobs))
        worker = place.start(contender.worker())
        seen = _wait_for(jobs, place, worker)
        if isinstance(contender, Limpet):
            settled_at = _wait_until_settled(contender, jobs, place)
        if seen.jobs != jobs:
            raise Trouble(f"{jobs} jobs were handed in and {seen.jobs} were run.")
    rates = {RATE: jobs / (seen.last - seen.first) * 1e9}
    if isinstance(contender, Limpet):
        rates[SETTLED_RATE] = jobs / (settled_at - seen.first) * 1e9
    return rates


def _wait_for(jobs: int, place: Place, worker: "subprocess.Popen[bytes]") -> tally.Count:
    """Until that many were run; the jobs keep the times, so that looking rarely costs nothing."""
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


def _wait_until_settled(contender: Limpet, jobs: int, place: Place) -> int:
    with contender.store(place) as store:
        give_up = time.monotonic() + LONGEST_STILL_SECONDS
        while (done := succeeded(store)) < jobs:
            if time.monotonic() > give_up:
                raise Trouble(f"the store shows only {done} of {jobs} jobs as finished.")
            time.sleep(0.002)
        return time.monotonic_ns()


def report(figures: Figures) -> list[str]:
    head = ["one worker", RATE, SETTLED_RATE, "times Huey", "times BullMQ", "others", "reached"]
    huey = best(figures.of(each.name, RATE) for each in HUEYS)
    bullmq = figures.of(BULLMQ.name, RATE)
    rows = []
    for each in LIMPETS:
        rate = figures.of(each.name, RATE)
        by_huey, by_bullmq = ratios(rate, huey), ratios(rate, bullmq)
        rows.append(
            [
                each.name,
                figures.cell(each.name, RATE),
                figures.cell(each.name, SETTLED_RATE),
                spread(by_huey),
                spread(by_bullmq),
                figures.cell(each.name, OTHERS),
                f"≥ {OF_HUEY} times Huey: {reached(at_least(by_huey, OF_HUEY))}; "
                f"≥ {OF_BULLMQ} times BullMQ: {reached(at_least(by_bullmq, OF_BULLMQ))}",
            ]
        )
    for peer in (*HUEYS, BULLMQ):
        others = figures.cell(peer.name, OTHERS)
        rows.append([peer.name, figures.cell(peer.name, RATE), "", "", "", others, ""])
    return [
        "## Drain of no-op jobs",
        "",
        "Jobs a second from the first job run to the last; then, stricter, from the first job run "
        "until the store shows all of them as finished. Ratios are taken run by run, against the "
        "row of Huey with the best median. *Others*: cores that were busy with anything else on "
        "the machine meanwhile.",
        "",
        *table(head, rows),
    ]


PART = Part("drain", measures, report)

if __name__ == "__main__":
    run_alone(PART, __doc__)
