"""How fast this tree is beside another revision of it: drains of one worker, in turn.

    python benchmarks/against.py REVISION [--runs 20] [--jobs 40000] [--only Redis]

The revision is checked out into a folder of its own and run with this tree's environment and this
folder's scripts. Each run drains an empty store of each kind once by either tree, and once by this
one with a key on every job: as many keys as jobs, and a hundred. What counts is the median of the
ratios, each taken within one run; processor time is that of the worker, the server and the client.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import engines
import processes
import worker_drain
from contender import HERE, Contender, Place, Trouble
from engines import Engine
from figures import Figures, ratios, spread, table
from limpet_contender import Limpet

CPU = "µs of processor a job"
RATE = worker_drain.RATE


class Tree(Limpet):
    """A worker of one revision; `keys`: how many keys its jobs have, if any."""

    def __init__(self, name: str, engine: Engine, source: Path, keys: str = "") -> None:
        super().__init__("async", engine)
        self.name = f"{engine.name}, {name}"
        self._source = source
        self._keys = keys

    def environment(self) -> dict[str, str]:
        path = f"{self._source / 'src'}:{HERE}"
        return {**super().environment(), "PYTHONPATH": path, "BENCH_KEYS": self._keys}

    @contextmanager
    def counting(self, place: Place) -> Iterator[Callable[[], int]]:
        # Not asked: the store may be of an older schema than the code of this process can read.
        yield lambda: 0


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The revision in a folder of its own, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="limpet-against-") as folder:
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", folder, revision], check=True)
        try:
            # As this tree is after its first run: else every process would compile it anew.
            subprocess.run([sys.executable, "-m", "compileall", "-q", f"{folder}/src"], check=True)
            yield Path(folder)
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True)


def measure(tree: Contender, jobs: int, figures: Figures) -> None:
    processes.wait_for_quiet(10)
    before = processes.own_seconds()
    try:
        rate = worker_drain.drain(tree, jobs)[RATE]
    except Trouble as error:
        figures.miss(tree.name, str(error))
        return
    figures.add(tree.name, RATE, rate)
    figures.add(tree.name, CPU, (processes.own_seconds() - before) / jobs * 1e6)


def report(figures: Figures, rows: list[tuple[Tree, Tree]]) -> list[str]:
    """Each tree beside the one that it is compared with."""
    shown = []
    for tree, base in rows:
        cells = [figures.cell(tree.name, what) for what in (RATE, CPU)]
        for what in (RATE, CPU):
            cells.append(spread(ratios(figures.of(tree.name, what), figures.of(base.name, what))))
        shown.append([tree.name, *cells])
    return table(["drain", RATE, CPU, "rate, ratio", "processor, ratio"], shown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("revision")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--only", default="", help="only stores whose name has this in it")
    asked = parser.parse_args()
    processes.leave_in_order()
    figures = Figures()
    rows: list[tuple[Tree, Tree]] = []
    with checked_out(asked.revision) as other:
        for engine in (engines.SQLITE, engines.REDIS, engines.POSTGRES):
            if asked.only in engine.name:
                base = Tree(asked.revision, engine, other)
                for name, keys in (("", ""), (", a key a job", "own"), (", 100 keys", "100")):
                    rows.append((Tree(f"this tree{name}", engine, HERE.parent, keys), base))
        for figures.run in range(asked.runs):
            for tree, base in rows:
                pair = [tree, base] if tree.name.endswith("this tree") else [tree]
                for each in pair if figures.run % 2 else pair[::-1]:
                    measure(each, asked.jobs, figures)
    print("\n".join(report(figures, rows)))
    for what in figures.troubles:
        print(what)
    return 0 if all(median(figures.of(t.name, RATE).values() or [0]) for t, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
