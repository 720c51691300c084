"""How long a job waits for its next start after the whole tree of its worker was killed with -9.

Two workers are up; the one that runs the job is killed. A no-op job comes in each second, because
some systems look for lost jobs only when others come. Peers are measured at the same time, because
they mostly wait.
"""

import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import lineup
import processes
import tally
from contender import Contender, Place, Trouble
from figures import NOT_MEASURED, Figures, reached, table
from part import Part, run_alone
from peers.catalog import EVERY
from peers.peer import Peer
from scale import Scale

START, LONGEST = "s to the next start", "s waited at most"
GOAL_SECONDS = 1
LEASE_SECONDS = 10
HOST_LOST_SECONDS = LEASE_SECONDS + 0.5
# How many peers wait at a time; each has two workers, and most of them poll.
BESIDE = 4
BOOT_SECONDS = 8
FIRST_START_SECONDS = 30
NEVER = float("inf")
# Hides the folder of the locks from this worker alone.
OWN_RUN = 'mkdir -p /run/limpet && mount -t tmpfs none /run/limpet && exec "$@"'


@dataclass(frozen=True)
class Kill:
    """The contender to kill, its setting, and the goal for the next start of its job, if any.

    `apart`: neither sees the locks of the other, as if on two hosts, so that the lease decides.
    """

    contender: Contender
    setting: str
    goal_seconds: float | None = None
    apart: bool = False

    @property
    def name(self) -> str:
        return f"{self.contender.name}, {self.setting}"


def _kills() -> list[Kill]:
    kills = [
        kill
        for each in lineup.PLAIN
        if each.kind == "sync"
        for kill in (
            Kill(each, "as it comes", GOAL_SECONDS),
            Kill(each, "as it comes, neighbour on another host", HOST_LOST_SECONDS, apart=True),
        )
    ]
    for peer in EVERY:
        kills.append(Kill(peer.set_to("default"), "as it comes"))
        if peer.tight:
            kills.append(Kill(peer.set_to("tight"), "tightest"))
    return kills


KILLS = _kills()


def measures(scale: Scale, figures: Figures) -> list[tuple[Contender, Callable[[], None]]]:
    """Measure Limpet's contenders one by one, then the peers at the same time."""
    pool: list[ThreadPoolExecutor] = []
    waiting: dict[str, Future[list[float]]] = {}

    def times(kill: Kill) -> list[float]:
        if not isinstance(kill.contender, Peer):
            return recover(kill, scale.peer_kills, scale)
        if not pool:
            pool.append(ThreadPoolExecutor(BESIDE))
        if kill.name not in waiting:
            for each in chosen:
                often = scale.peer_kills if each.setting == "tightest" else 1
                waiting[each.name] = pool[0].submit(recover, each, often, scale)
        return waiting[kill.name].result()

    def measure(kill: Kill) -> Callable[[], None]:
        def take() -> None:
            for figures.run, seconds in enumerate(times(kill)):
                figures.add(kill.name, START, seconds)
            figures.run = 0
            figures.add(kill.name, LONGEST, scale.recovery_seconds)

        return take

    chosen = [
        kill
        for kill in KILLS
        if isinstance(kill.contender, Peer)
        and scale.only in kill.contender.name
        and not kill.contender.missing()
    ]
    # All kills belong to the first run: each kill is a repetition of its own.
    return [] if figures.run else [(kill.contender, measure(kill)) for kill in KILLS]


def recover(kill: Kill, times: int, scale: Scale) -> list[float]:
    """Seconds to the next start, for each kill; infinite where the start did not come in time."""
    engine = kill.contender.engine.apart()
    contender = kill.contender.on(engine)
    try:
        return [_one(kill, contender, scale) for _ in range(times)]
    finally:
        if engine is not kill.contender.engine:
            engine.close()


def _one(kill: Kill, contender: Contender, scale: Scale) -> float:
    if kill.apart and os.geteuid() != 0:
        raise Trouble("only root can hide the locks of one worker from another.")
    with contender.place() as place:
        workers = []
        for _ in range(2):
            command = contender.worker()
            if kill.apart:
                command = ["unshare", "--mount", "sh", "-c", OWN_RUN, "sh", *command]
            workers.append(place.start(command))
        time.sleep(BOOT_SECONDS)
        place.run(contender.feed("hold", "k"))
        first = _start(place, 0, FIRST_START_SECONDS)
        if first is None:
            raise Trouble(f"the job was not started: {place.last_words(workers[0])}")
        place.start(contender.feed("trickle", f"{scale.recovery_seconds:.0f}"))
        time.sleep(1)
        at = processes.kill(_tree_of(first, [worker.pid for worker in workers]))
        again = _start(place, 1, scale.recovery_seconds)
        return NEVER if again is None else (again.at - at) / 1e9


def _start(place: Place, number: int, seconds: float) -> tally.Start | None:
    give_up = time.monotonic() + seconds
    while len(seen := tally.starts(place.folder)) <= number:
        if time.monotonic() > give_up:
            return None
        time.sleep(0.02)
    return seen[number]


def _tree_of(start: tally.Start, roots: list[int]) -> list[int]:
    for root in roots:
        tree = processes.tree(root)
        if any(processes.seen_from_inside(pid) == (start.pid, start.namespace) for pid in tree):
            return tree
    raise Trouble("the process that runs the job was not found.")


def report(figures: Figures) -> list[str]:
    rows = []
    for kill in KILLS:
        seconds = list(figures.of(kill.name, START).values())
        goal = ""
        if kill.goal_seconds is not None:
            good = max(seconds) <= kill.goal_seconds if seconds else None
            goal = f"≤ {kill.goal_seconds:g} s: {reached(good)}"
        cells = [_shown(figures, kill, pick) for pick in (min, statistics.median, max)]
        rows.append([kill.contender.name, kill.setting, str(len(seconds)), *cells, goal])
    head = ["who", "how it is set", "kills", "least", "median", "most", "reached"]
    return [
        "## Recovery after kill -9 of a whole worker",
        "",
        "Seconds from the kill to the start of the job's next attempt, with a second worker up and "
        "a no-op job coming in each second. "
        "*Another host*: the second worker can not see the locks of the first, so that the lease "
        f"({LEASE_SECONDS} s) decides.",
        "",
        *table(head, rows),
    ]


def _shown(figures: Figures, kill: Kill, pick: Callable[[list[float]], float]) -> str:
    seconds = list(figures.of(kill.name, START).values())
    if not seconds:
        return NOT_MEASURED
    value = pick(seconds)
    return f"over {figures.of(kill.name, LONGEST)[0]:.0f}" if value == NEVER else f"{value:.2f}"


PART = Part("recovery", measures, report)

if __name__ == "__main__":
    run_alone(PART, __doc__)
