"""Heavy jobs under a limit of memory, with the gate and without: time, losses, failures.

    python benchmarks/gate.py [--runs 3] [--jobs 8]

Four workers with two lanes each share one control group with a limit of memory; each job takes half
a gigabyte and two seconds of a core. A third way: jobs that take it six seconds after they began,
beside a program that is none of Limpet's and holds some already. Writes benchmarks/results/gate.md
and gate.svg. Needs root.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import gate_plot
import processes
from contender import HERE, Trouble
from figures import table
from memory_group import MemoryGroup, memory_group

from limpet.domain.job import JobFilter
from limpet.domain.state import FINAL, State
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

RESULTS = HERE / "results"
LIMIT = 2_000_000_000
MEGABYTES, CPU_SECONDS = 500, 2.0
WORKERS, LANES = 4, 2
TIMEOUT_SECONDS = 300.0
SAMPLE_SECONDS = 0.05
# Memory of a program beside the late jobs.
BESIDE_MEGABYTES = 400
WAYS = {
    "gated": "with the gate",
    "ungated": "without",
    "late": f"late at the gate, beside {BESIDE_MEGABYTES} MB",
}


@dataclass
class Run:
    """The figures of one run; times are seconds since the jobs were enqueued."""

    task: str
    jobs: int
    seconds: float = 0.0
    succeeded: int = 0
    failed: int = 0
    attempts: int = 0
    killed: int = 0
    most_at_once: int = 0
    memory: list[tuple[float, int]] = field(default_factory=list)
    running: list[tuple[float, int]] = field(default_factory=list)


@contextmanager
def workers(url: str, group: MemoryGroup, record: Path) -> Iterator[None]:
    environment = {
        **os.environ,
        "LIMPET_URL": url,
        "PYTHONPATH": str(HERE),
        "BENCH_MEGABYTES": str(MEGABYTES),
        "BENCH_CPU_SECONDS": str(CPU_SECONDS),
        "BENCH_RECORD": str(record),
    }
    command = [sys.executable, "-m", "limpet.cli.main", "worker", "gate_jobs:app"]
    # Only memory is measured, so the CPU must not hold jobs back: two jobs fill this machine.
    command += ["--lanes", str(LANES), "--gate-cpu", "100", "--server-id", "bench"]
    started = [
        subprocess.Popen(
            group.within([*command, "--name", f"w{number}"]),
            cwd=HERE,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in range(WORKERS)
    ]
    try:
        yield
    finally:
        for worker in started:
            processes.stop(worker)


@contextmanager
def bystander(group: MemoryGroup, megabytes: int) -> Iterator[None]:
    """A program in the group that holds that many megabytes."""
    hold = f"held = bytearray({megabytes} * 1_000_000); print(flush=True); input()"
    program = subprocess.Popen(
        group.within([sys.executable, "-c", hold]), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.stdout is not None
    program.stdout.readline()
    try:
        yield
    finally:
        processes.stop(program)


def measure(task: str, jobs: int) -> Run:
    """Run all jobs, from their enqueue to the end of the last one."""
    run = Run(task, jobs)
    with tempfile.TemporaryDirectory(prefix="limpet-gate-") as folder, memory_group(LIMIT) as group:
        record = Path(folder) / "record"
        record.touch()
        url = f"sqlite:///{folder}/jobs.db"
        store = open_store(url)
        store.migrate()
        beside = BESIDE_MEGABYTES if task == "late" else 0
        with bystander(group, beside), workers(url, group, record):
            _wait(lambda: len(store.sessions()) == WORKERS, 60, "the workers did not start")
            time.sleep(3)  # the monitor has looked
            began = time.monotonic()
            watch = _Watch(group, began)
            try:
                _hand_in(url, task, jobs)
                _wait(lambda: _over(store) == jobs, TIMEOUT_SECONDS, "the jobs did not end")
                run.seconds = time.monotonic() - began
            finally:
                run.memory = watch.stop()
            run.killed = group.killed()
        for job in store.jobs(JobFilter(), limit=jobs).jobs:
            run.succeeded += job.state is State.SUCCEEDED
            run.failed += job.state is State.FAILED
            run.attempts += job.token
        run.running = _running(record, began)
        run.most_at_once = max(number for _, number in run.running)
        store.close()
    return run


def _hand_in(url: str, task: str, jobs: int) -> None:
    from gate_jobs import app

    app.registry.move_to(url)
    app.enqueue_many([app.find(task).call() for _ in range(jobs)])


def _over(store: Store) -> int:
    return sum(view.counts.get(state, 0) for view in store.queues() for state in FINAL)


def _wait(what: Callable[[], bool], seconds: float, otherwise: str) -> None:
    give_up = time.monotonic() + seconds
    while not what():
        if time.monotonic() > give_up:
            raise Trouble(f"{otherwise} within {seconds:.0f} s.")
        time.sleep(0.1)


class _Watch:
    """Looks at the memory of the group, again and again."""

    def __init__(self, group: MemoryGroup, began: float) -> None:
        self._group = group
        self._began = began
        self._seen: list[tuple[float, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self._seen.append((time.monotonic() - self._began, self._group.used()))

    def stop(self) -> list[tuple[float, int]]:
        self._over.set()
        self._thread.join()
        return self._seen


def _running(record: Path, began: float) -> list[tuple[float, int]]:
    """How many jobs computed over time, from their marks; a second begin means an end before it."""
    alive: set[str] = set()
    seen = [(0.0, 0)]
    for line in record.read_text(encoding="utf-8").splitlines():
        at, what, job = line.split()
        if what == "begin":
            alive.add(job)
        else:
            alive.discard(job)
        seen.append((float(at) - began, len(alive)))
    return seen


def report(runs: list[Run]) -> list[str]:
    rows = []
    for task, name in WAYS.items():
        mine = [run for run in runs if run.task == task]
        rows.append(
            [
                name,
                f"{median(run.seconds for run in mine):.1f}",
                _spread([run.attempts for run in mine]),
                _spread([run.killed for run in mine]),
                f"{sum(run.failed for run in mine)} of {sum(run.jobs for run in mine)}",
                _spread([run.most_at_once for run in mine]),
                f"{max(size for run in mine for _, size in run.memory) / 1e9:.2f}",
            ]
        )
    head = ["", "seconds, median", "attempts", "ended for want of memory", "jobs that failed"]
    head += ["most at once", "most memory, GB"]
    return table(head, rows)


def _spread(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=8)
    options = parser.parse_args()
    processes.leave_in_order()
    runs = []
    try:
        for _ in range(options.runs):
            for task in WAYS:
                runs.append(measure(task, options.jobs))
                done = runs[-1]
                print(
                    f"{task}: {done.seconds:.1f} s, {done.attempts} attempts, {done.failed} failed",
                    flush=True,
                )
    except Trouble as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    lines = [
        "# Heavy jobs under a limit of memory",
        "",
        f"Written by `python benchmarks/gate.py`, {options.runs} runs of each, in turn. "
        f"{options.jobs} jobs of {MEGABYTES} MB and {CPU_SECONDS:g} s of a core each; "
        f"{WORKERS} workers with {LANES} lanes each in one control group of {LIMIT / 1e9:g} GB, on "
        f"{os.cpu_count()} cores; SQLite. Python {platform.python_version()}, Linux "
        f"{platform.release()}.",
        "",
        *report(runs),
        "",
        "![memory and jobs over time](gate.svg)",
    ]
    print("\n".join(lines))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "gate.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    first = {run.task: run for run in reversed(runs)}
    (RESULTS / "gate.svg").write_text(
        gate_plot.drawn([(name, first[task]) for task, name in WAYS.items()], LIMIT),
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
