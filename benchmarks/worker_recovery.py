"""How long a job waits for its next start after a part of its worker was killed or frozen."""

import os
import random
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import processes
from contender import Contender
from figures import NOT_MEASURED, Figures, reached, table
from limpet_contender import Limpet
from lineup import ENGINES
from part import Part, run_alone
from scale import Scale
from workers import Held, Workers

LEASE_SECONDS, DRAIN_SECONDS = 10, 2
OPTIONS = ("--lease", f"{LEASE_SECONDS}s", "--drain", f"{DRAIN_SECONDS}s", "--lanes", "2")
LIMPETS = [Limpet("sync", engine, OPTIONS) for engine in ENGINES]
START, READY = "s to the next start", "s until ready again"
OVERLAP, CHARGED = "s that two runs overlapped", "orphans charged"
LOAD = "load average"


@dataclass(frozen=True)
class Cause:
    """A way to lose a worker, and how long the design lets its job wait.

    `neighbour`: a second worker on the same host, because the first does not come back.
    """

    name: str
    limit_seconds: float
    kill: Callable[[Held], int]
    neighbour: bool = False
    kinds: tuple[str, ...] = ("async", "sync")


def _part(name: str, number: int = signal.SIGKILL) -> Callable[[Held], int]:
    def kill(held: Held) -> int:
        (pid,) = processes.named(held.worker.pid, name)
        at = time.monotonic_ns()
        os.kill(pid, number)
        return at

    return kill


def _executor(held: Held) -> int:
    return processes.kill([held.executor])


def _guardian(held: Held, number: int = signal.SIGKILL) -> int:
    at = time.monotonic_ns()
    held.worker.send_signal(number)
    return at


def _everyone(held: Held) -> int:
    return processes.kill(processes.tree(held.worker.pid))


CAUSES = [
    Cause("executor of async tasks, kill -9", 0.1, _executor, kinds=("async",)),
    Cause("executor of sync tasks, kill -9", 0.1, _executor, kinds=("sync",)),
    Cause("zygote, kill -9", 1, _part("limpet-zygote")),
    Cause("supervisor, kill -9", 1, _part("limpet-super")),
    Cause("guardian, kill -9, a neighbour takes over", 1, _guardian, neighbour=True),
    Cause("whole tree, kill -9, a neighbour takes over", 1, _everyone, neighbour=True),
    Cause(
        f"supervisor, SIGSTOP, lease {LEASE_SECONDS} s",
        LEASE_SECONDS / 4 + 1,
        _part("limpet-super", signal.SIGSTOP),
    ),
    Cause(
        f"SIGTERM, drain {DRAIN_SECONDS} s, a neighbour takes over",
        DRAIN_SECONDS + 1,
        lambda held: _guardian(held, signal.SIGTERM),
        neighbour=True,
    ),
]


def measures(scale: Scale, figures: Figures) -> list[tuple[Contender, Callable[[], None]]]:
    """One cause after the other; the kills of a cause are its runs."""

    def measure(limpet: Limpet, cause: Cause) -> Callable[[], None]:
        return lambda: recover(limpet, cause, scale.kills, scale.quiet_timeout_seconds / 4, figures)

    if figures.run:
        return []  # all were taken in the first: a kill is a repetition of its own
    return [(limpet, measure(limpet, cause)) for cause in CAUSES for limpet in LIMPETS]


def recover(
    limpet: Limpet, cause: Cause, kills: int, quiet_timeout_seconds: float, figures: Figures
) -> None:
    draw = random.Random(kills)
    name = _named(limpet, cause)
    with limpet.place() as place, Workers(limpet, place) as workers:
        for number in range(kills):
            processes.wait_for_quiet(quiet_timeout_seconds)
            workers.fill_up(2 if cause.neighbour else 1)
            held = workers.hold(cause.kinds[number % len(cause.kinds)])
            # The kill comes at a random moment between two renewals.
            time.sleep(draw.uniform(0.1, 1.5))
            wall = time.time()
            at = cause.kill(held)
            again = workers.next_start(held)
            job = workers.finished(held)
            figures.run = number
            figures.add(name, START, (again.at - at) / 1e9)
            figures.add(name, READY, workers.ready_again(held) - wall)
            figures.add(name, OVERLAP, max(0, workers.last_pulse(held) - again.at) / 1e9)
            figures.add(name, CHARGED, job.counters.orphans)
            figures.add(name, LOAD, os.getloadavg()[0])
    figures.run = 0


def _named(limpet: Limpet, cause: Cause) -> str:
    return f"{limpet.engine.name}: {cause.name}"


def report(figures: Figures) -> list[str]:
    head = [
        "store",
        "what was done, and to whom",
        "kills",
        "limit, s",
        "least",
        "median",
        "most",
        "ready again, most",
        "overlaps",
        "orphans charged",
        LOAD,
        "reached",
    ]
    rows = [_row(limpet, cause, figures) for cause in CAUSES for limpet in LIMPETS]
    return [
        "## Recovery of Limpet, by cause",
        "",
        "Seconds from the kill to the *start* of the job's next attempt; the limits of "
        "the design "
        "are for the moment at which the job is ready again, which comes before and is shown "
        "beside, as the timeline has it. Reached: the slowest start was within the limit and no "
        "two runs overlapped. For a drain the design has no figure beyond its deadline; "
        "1 s after it is allowed here. *Load average*: of the machine, the median; what starts an "
        "interpreter anew takes as much longer as others leave it less of the processor.",
        "",
        *table(head, rows),
    ]


def _row(limpet: Limpet, cause: Cause, figures: Figures) -> list[str]:
    name, begin = _named(limpet, cause), [limpet.engine.name, cause.name]
    times = list(figures.of(name, START).values())
    if not times:
        return [*begin, "0", f"{cause.limit_seconds:g}", *[NOT_MEASURED] * 8]
    ready = max(figures.of(name, READY).values())
    overlaps = sum(value > 0 for value in figures.of(name, OVERLAP).values())
    charged = sum(figures.of(name, CHARGED).values())
    cells = [min(times), statistics.median(times), max(times), ready]
    good = max(times) <= cause.limit_seconds and not overlaps
    return [
        *begin,
        str(len(times)),
        f"{cause.limit_seconds:g}",
        *(f"{cell:.3f}" for cell in cells),
        str(overlaps),
        f"{charged:.0f}",
        f"{statistics.median(figures.of(name, LOAD).values()):.1f}",
        reached(good),
    ]


PART = Part("recovery", measures, report)

if __name__ == "__main__":
    run_alone(PART, __doc__)
