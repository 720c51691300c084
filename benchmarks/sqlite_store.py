"""Measures the SQLite store, verb by verb, and writes benchmarks/results/sqlite_store.md.

Run by `make bench-store`; `--quick` is a smoke run of a few seconds that writes nothing. The method
and the meaning of the figures are in benchmarks/README.md.
"""

import argparse
import contextlib
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import apsw
import through_client
from deepening import deepen, exchanges
from holder import IDS, TASK, Holder, fill, new_jobs

from limpet.domain.job import NewJob
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import CHUNK
from limpet.storage.sqlite.store import SqliteStore

RESULT = Path(__file__).parent / "results" / "sqlite_store.md"
CALLERS = 64


@dataclass(frozen=True)
class Size:
    """The sizes of a run; the quick one only shows that the script runs."""

    runs: int
    seconds: float
    one_by_one: int
    chunks: int
    of_a_caller: int
    wake_ups: int
    many: int
    few: int


FULL_SIZE = Size(3, 2.0, 1_000, 30, 100, 200, 1_000_000, 1_000)
QUICK_SIZE = Size(1, 0.2, 50, 3, 5, 20, 5_000, 1_000)


@dataclass
class Figures:
    """Figures by name and unit, in the order of the first run."""

    rows: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def add(self, what: str, unit: str, value: float) -> None:
        self.rows.setdefault((what, unit), []).append(value)
        print(f"{what}: {value:,.3g} {unit}" if value < 1000 else f"{what}: {value:,.0f} {unit}")

    def median(self, what: str, unit: str) -> float:
        return statistics.median(self.rows[what, unit])

    def table(self) -> list[str]:
        lines = ["| what | median | least | most | unit |", "|---|---:|---:|---:|---|"]
        for (what, unit), values in self.rows.items():
            cells = [statistics.median(values), min(values), max(values)]
            shown = [f"{cell:,.0f}" if cell >= 100 else f"{cell:.3g}" for cell in cells]
            lines.append(f"| {what} | {' | '.join(shown)} | {unit} |")
        return lines


@contextlib.contextmanager
def store_in(folder: str, synchronous: str = "full") -> Iterator[SqliteStore]:
    """A new store; its file is deleted afterwards."""
    with tempfile.TemporaryDirectory(dir=folder) as home:
        url = f"sqlite:///{home}/jobs.db?synchronous={synchronous}"
        with contextlib.closing(SqliteStore(url)) as store:
            yield store


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# -- enqueue


def one_by_one(figures: Figures, size: Size, folder: str, synchronous: str) -> None:
    jobs = new_jobs(size.one_by_one)
    with store_in(folder, synchronous) as store:
        store.enqueue(new_jobs(1))
        began = time.perf_counter()
        for job in jobs:
            store.enqueue([job])
        seconds = time.perf_counter() - began
    figures.add(f"enqueue one by one, one caller, {synchronous}", "jobs/s", len(jobs) / seconds)


def bulk(figures: Figures, size: Size, folder: str) -> None:
    chunks = [new_jobs(CHUNK) for _ in range(size.chunks)]
    with store_in(folder) as store:
        store.enqueue(new_jobs(1))
        began = time.perf_counter()
        for chunk in chunks:
            store.enqueue(chunk)
        seconds = time.perf_counter() - began
    figures.add("enqueue in chunks of 1,000, full", "jobs/s", size.chunks * CHUNK / seconds)


def concurrent_at_the_store(figures: Figures, size: Size, folder: str, synchronous: str) -> None:
    """64 threads, each with one job at a time: the effect of group commit alone."""
    with store_in(folder, synchronous) as store:
        store.enqueue(new_jobs(1))
        line = threading.Barrier(CALLERS + 1)

        def caller() -> None:
            jobs = new_jobs(size.of_a_caller)
            line.wait()
            for job in jobs:
                store.enqueue([job])

        threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
        for thread in threads:
            thread.start()
        line.wait()
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
    what = f"enqueue one by one, {CALLERS} threads at the store, {synchronous}"
    figures.add(what, "jobs/s", CALLERS * size.of_a_caller / seconds)


# -- settle, claim, renew


def through_the_client(figures: Figures, size: Size, folder: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        for name, rate in through_client.rates(inner, size.of_a_caller * CALLERS).items():
            figures.add(f"enqueue through the client, {name}, full", "jobs/s", rate)


def settle_and_claim(
    figures: Figures, size: Size, folder: str, batch: int, synchronous: str
) -> None:
    with store_in(folder, synchronous) as store:
        holder = Holder(store)
        settled, seconds = 0, 0.0
        while seconds < size.seconds:
            fill(store, 20 * batch)
            holder.exchange(batch)
            began = time.perf_counter()
            for _ in range(18):
                settled += holder.exchange(batch)
            seconds += time.perf_counter() - began
    what = f"settle and claim, batch {batch}, {synchronous}"
    figures.add(what, "jobs/s", settled / seconds)


def renewal(figures: Figures, size: Size, folder: str) -> None:
    for held in (0, 1_000):
        with store_in(folder) as store:
            fill(store, held)
            holder = Holder(store)
            holder.exchange(held)
            assert len(holder.held) == held
            times = []
            for _ in range(size.one_by_one // 2):
                began = time.perf_counter()
                store.renew(holder.session)
                times.append(time.perf_counter() - began)
        figures.add(f"renewal with {held:,} jobs held, full", "ms", quantile(times, 0.5) * 1e3)


# -- from enqueue to claim, across processes


def wake_up(figures: Figures, size: Size, folder: str, synchronous: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as home:
        url = f"sqlite:///{home}/jobs.db?synchronous={synchronous}"
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        worker = context.Process(target=claim_when_woken, args=(url, size.wake_ups, there))
        with contextlib.closing(SqliteStore(url)) as store:
            store.enqueue(new_jobs(1))
            worker.start()
            here.recv()
            for _ in range(size.wake_ups):
                time.sleep(0.01)
                stamp = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                store.enqueue([NewJob(IDS.new(), TASK, str(stamp))])
            waits: list[float] = here.recv()
            worker.join()
    for share in (0.5, 0.99):
        what = f"enqueue to claim in another process, p{share * 100:.0f}, {synchronous}"
        figures.add(what, "ms", quantile(waits, share) * 1e3)


def claim_when_woken(url: str, count: int, pipe: "multiprocessing.connection.Connection") -> None:
    """The other process: sleeps until the bell rings, claims, and looks at the clock."""
    waits: list[float] = []
    with contextlib.closing(SqliteStore(url)) as store:
        bell = store.listen(Topic.READY)
        holder = Holder(store)
        holder.exchange(10)
        holder.exchange(0)
        pipe.send("ready")
        while len(waits) < count:
            bell.wait(timedelta(seconds=1))
            holder.exchange(10)
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            waits += [(now - int(job.args)) / 1e9 for job in holder.held]
        bell.close()
    pipe.send(waits)


# -- a million waiting and a million finished


def depth(figures: Figures, size: Size, folder: str) -> None:
    """The same exchanges on a deep and a shallow store, alternating, refilled to the same depth."""
    names = {"few": f"{size.few:,}", "many": f"{size.many:,}"}
    with store_in(folder) as few, store_in(folder) as many:
        holders = {"few": Holder(few), "many": Holder(many)}
        for name, count in (("few", size.few), ("many", size.many)):
            deepen(holders[name], count)
            path = holders[name].store.info().url.removeprefix("sqlite:///").partition("?")[0]
            megabytes = sum(os.path.getsize(path + part) for part in ("", "-wal")) / 1e6
            figures.add(f"file with {names[name]} waiting and as many finished", "MB", megabytes)
        for batch in (1, 10, 100, 500):
            rates: dict[str, list[float]] = {"few": [], "many": []}
            times: dict[str, list[float]] = {"few": [], "many": []}
            for _ in range(3 * size.runs):
                for name, holder in holders.items():
                    took = exchanges(holder, batch, size.seconds / 3)
                    times[name] += took
                    rates[name].append(batch * len(took) / sum(took))
            ratios = [a / b for a, b in zip(rates["few"], rates["many"], strict=True)]
            for name in holders:
                what = f"settle and claim, batch {batch}, at {names[name]}"
                figures.add(what, "jobs/s", statistics.median(rates[name]))
                if batch == 1:
                    for share in (0.5, 0.99):
                        what = f"claim of one job at {names[name]}, p{share * 100:.0f}"
                        figures.add(what, "ms", quantile(times[name], share) * 1e3)
            what = f"times slower at {names['many']} than at {names['few']}, batch {batch}"
            for ratio in ratios:
                figures.add(what, "times", ratio)


# -- all of it


def measures(figures: Figures, size: Size, folder: str) -> list[Callable[[], None]]:
    both = ("full", "normal")
    return [
        *(lambda s=s: one_by_one(figures, size, folder, s) for s in both),
        lambda: bulk(figures, size, folder),
        *(lambda s=s: concurrent_at_the_store(figures, size, folder, s) for s in both),
        lambda: through_the_client(figures, size, folder),
        *(lambda b=b: settle_and_claim(figures, size, folder, b, "full") for b in (10, 100, 500)),
        lambda: settle_and_claim(figures, size, folder, 100, "normal"),
        lambda: renewal(figures, size, folder),
        *(lambda s=s: wake_up(figures, size, folder, s) for s in both),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run; writes no table")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the stores are made")
    given = parser.parse_args()
    size = QUICK_SIZE if given.quick else FULL_SIZE
    figures = Figures()
    for _ in range(size.runs):
        for measure in measures(figures, size, given.folder):
            measure()
    depth(figures, size, given.folder)
    if not given.quick:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text("\n".join([*heading(size), *figures.table()]) + "\n", encoding="utf-8")
    return 0


def heading(size: Size) -> list[str]:
    return [
        "# The SQLite store, measured",
        "",
        "Written by `make bench-store`; method and caveats are in [../README.md](../README.md).",
        "",
        f"Python {platform.python_version()}, apsw {apsw.apsw_version()}, SQLite "
        f"{apsw.sqlite_lib_version()}, {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}. `full` and `normal` are SQLite's `synchronous`; medians of "
        f"{size.runs} alternating runs. Rows that say `at` a depth come from one pair of stores "
        f"and {3 * size.runs} interleaved rounds: rates are medians of the rounds, shown once, and "
        f"`times slower` has the spread of the rounds.",
        "",
    ]


if __name__ == "__main__":
    sys.exit(main())
