"""How fast this tree is beside another revision of it: one worker of each, one after the other.

    python benchmarks/against.py REVISION [--runs 20] [--jobs 80000] [--only Redis] [--keys]

The revision is checked out into a folder of its own and run with this tree's environment and this
folder's scripts. In each run, each tree drains a new store of each kind once, with async and with
sync tasks, and an idle worker of each tree gets single jobs. With `--keys` this tree also runs jobs
with keys: as many keys as jobs, and a hundred keys. The result is the median of the ratios, each
taken within one run.

The processor time of a job is that of the worker's tree and the server, as the scheduler counts it
in nanoseconds, from the first tenth of the jobs to the last: a start costs as much as thousands of
jobs, and has a column of its own.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import engines
import processes
import tally
import worker_drain
import worker_pickup
from contender import HERE, Place, Trouble
from engines import Engine
from figures import Figures, quantile, ratios, spread, table
from limpet_contender import Limpet

RATE = worker_drain.RATE
CPU = "µs of processor a job"
START = "ms of processor to start"
PICK_UP = worker_pickup.P50
FEW_JOBS = 100
# Few starts are enough, because they all cost about the same.
STARTS = 5


class Tree(Limpet):
    """A worker of one revision; `keys`: how many keys its jobs have, if any."""

    def __init__(self, name: str, kind: str, engine: Engine, source: Path, keys: str = "") -> None:
        super().__init__(kind, engine)
        self.name = f"{engine.name}, {kind}, {name}"
        self._source = source
        self._keys = keys

    def environment(self) -> dict[str, str]:
        path = f"{self._source / 'src'}:{HERE}"
        return {**super().environment(), "PYTHONPATH": path, "BENCH_KEYS": self._keys}

    @contextmanager
    def counting(self, place: Place) -> Iterator[Callable[[], int]]:
        # Not counted: the store may have an older schema than the code of this process can read.
        yield lambda: 0


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Check the revision out into a folder of its own; remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="limpet-against-") as folder:
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", folder, revision], check=True)
        try:
            for tree in (folder, HERE.parent):
                # Otherwise every process compiles it anew where the environment keeps no bytecode.
                subprocess.run(
                    [sys.executable, "-m", "compileall", "-q", f"{tree}/src"], check=True
                )
            yield Path(folder)
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True)


class Drain(NamedTuple):
    """Jobs a second; seconds of processor until the first tenth of the jobs, and a job after it."""

    rate: float
    start: float
    each: float


def drain(tree: Tree, jobs: int) -> Drain:
    """Let one worker run all jobs of a store."""
    processes.wait_for_quiet(10)
    with tree.place() as place:
        place.run(tree.fill(jobs))
        tree.engine.filled(place.url)
        idle = processes.scheduled_seconds()
        worker = place.start(tree.worker())
        give_up = time.monotonic() + worker_drain.LONGEST_STILL_SECONDS + jobs / 1000

        def wait_for(wanted: int, look_seconds: float) -> tally.Count:
            while (seen := tally.counted(place.folder)).jobs < wanted:
                place.must_run(worker)
                if time.monotonic() > give_up:
                    what = f"{seen.jobs} of {jobs} jobs were run"
                    raise Trouble(f"{what}: {place.last_words(worker)}")
                time.sleep(look_seconds)
            return seen

        wait_for(jobs // 10, 0.02)
        started = processes.scheduled_seconds()
        first = tally.counted(place.folder)
        last = wait_for(jobs, 0.05)
        spent = processes.scheduled_seconds() - started
    rate = jobs / (last.last - last.first) * 1e9
    # Few jobs may all have run before the first look.
    return Drain(rate, started - idle, spent / max(last.jobs - first.jobs, 1))


def measure(tree: Tree, jobs: int, pick_ups: int, figures: Figures) -> None:
    try:
        if figures.run < STARTS:
            figures.add(tree.name, START, drain(tree, FEW_JOBS).start * 1e3)
        seen = drain(tree, jobs)
        figures.add(tree.name, RATE, seen.rate)
        figures.add(tree.name, CPU, seen.each * 1e6)
        if pick_ups:
            figures.add(tree.name, PICK_UP, quantile(worker_pickup.pick_up(tree, pick_ups), 0.5))
    except Trouble as error:
        figures.miss(tree.name, str(error))


def report(figures: Figures, rows: list[tuple[Tree, Tree]]) -> list[str]:
    """The table of the trees, each beside its base."""
    shown = []
    for tree, base in rows:
        cells = []
        for what in (CPU, RATE, PICK_UP, START):
            by = ratios(figures.of(tree.name, what), figures.of(base.name, what))
            cells += [figures.cell(tree.name, what), spread(by)]
        shown.append([tree.name, *cells])
    head = ["one worker"]
    for what in (CPU, RATE, PICK_UP, START):
        head += [what, "ratio"]
    return table(head, shown)


def contenders(source: Path, revision: str, only: str, *, keys: bool) -> list[tuple[Tree, Tree]]:
    """The trees, each with its base."""
    rows = []
    for engine in (engines.SQLITE, engines.REDIS, engines.POSTGRES):
        for kind in ("async", "sync"):
            base = Tree(revision, kind, engine, source)
            if only in base.name:
                rows.append((Tree("this tree", kind, engine, HERE.parent), base))
                if keys and kind == "async":
                    for name, count in (("a key a job", "own"), ("100 keys", "100")):
                        rows.append((Tree(name, kind, engine, HERE.parent, count), base))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("revision")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=80_000)
    parser.add_argument("--pick-ups", type=int, default=40, help="of the async workers; 0 for none")
    parser.add_argument("--only", default="", help="only rows whose name has this in it")
    parser.add_argument("--keys", action="store_true", help="also jobs with keys")
    options = parser.parse_args()
    processes.leave_in_order()
    figures = Figures()
    with checked_out(options.revision) as other:
        rows = contenders(other, options.revision, options.only, keys=options.keys)
        for figures.run in range(options.runs):
            for tree, base in rows:
                pair = [tree, base] if tree.name.endswith("this tree") else [tree]
                for contender in pair if figures.run % 2 else pair[::-1]:
                    pick_ups = options.pick_ups if contender.kind == "async" else 0
                    measure(contender, options.jobs, pick_ups, figures)
    print("\n".join(report(figures, rows)))
    for what in figures.troubles:
        print(what)
    return 0 if all(median(figures.of(t.name, RATE).values() or [0]) for t, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
