"""Measures the Redis store alone, from one connection.

    python benchmarks/redis_store.py [--kind redis|valkey|system] [--url URL] [--jobs N] [--quick]

Without a URL it starts a server of its own. It prints a table; each figure has the time that the
server and this process spent on a job.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import redis
from servers import RedisServer

from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.job import ClaimedJob, NewJob
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.transition import Complete
from limpet.storage.contract.store import ANY_QUEUE, CHUNK, Pool, Want
from limpet.storage.redis.store import RedisStore

IDS = IdSource(SystemClock())
TASK = "email.send"
ARGS = '{"to": "someone@example.org", "template": "welcome", "n": 12345}'


def new_jobs(count: int) -> list[NewJob]:
    return [NewJob(IDS.new(), TASK, ARGS) for _ in range(count)]


class Holder:
    """A session that settles the jobs that it holds and claims new ones."""

    def __init__(self, store: RedisStore, others: int = 0) -> None:
        self.store = store
        self.session = IDS.new()
        self.seq = 0
        self.held: tuple[ClaimedJob, ...] = ()
        tasks = frozenset({TASK, *(f"task{n}" for n in range(others))})
        lease = timedelta(hours=1)
        new = NewSession(self.session, SessionKind.WORKER, "b", "h", os.getpid(), lease, tasks)
        self._tasks = store.register(new).tasks

    def exchange(self, batch: int) -> int:
        """Settle all held jobs and claim a batch; returns how many were settled."""
        self.seq += 1
        done = [Complete(job.lease) for job in self.held]
        want = Want((Pool(self._tasks, {ANY_QUEUE: batch}, batch),)) if batch else None
        answer = self.store.exchange(self.session, self.seq, done, want)
        assert not answer.rejected
        self.held = answer.claimed
        return len(done)


class Watch:
    """Wall time, and the processor time of the server and of this process."""

    def __init__(self, server: "redis.Redis") -> None:
        self._server = server
        self._cpu = self._server_seconds()
        self._wall, self._own = time.perf_counter(), time.process_time()

    def _server_seconds(self) -> float:
        used = self._server.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def print_row(self, what: str, jobs: int) -> float:
        wall, own = time.perf_counter() - self._wall, time.process_time() - self._own
        server = self._server_seconds() - self._cpu
        costs = f"{server * 1e6 / jobs:.2f} | {own * 1e6 / jobs:.2f}"
        print(f"| {what} | {jobs / wall:,.0f} | {costs} |", flush=True)
        return jobs / wall


def fill(store: RedisStore, count: int) -> None:
    for _ in range(0, count, CHUNK):
        store.enqueue(new_jobs(CHUNK))


def drain(store: RedisStore, server: "redis.Redis", what: str, batch: int, jobs: int) -> None:
    fill(store, jobs)
    holder = Holder(store)
    holder.exchange(batch)
    watch = Watch(server)
    settled = 0
    while holder.held:
        settled += holder.exchange(batch)
    watch.print_row(what, settled)


def claim_time(store: RedisStore) -> float:
    """The microseconds of the fastest of 50 exchanges of 100 jobs."""
    holder = Holder(store)
    took = []
    for _ in range(50):
        began = time.perf_counter()
        holder.exchange(100)
        took.append((time.perf_counter() - began) * 1e6)
    holder.exchange(0)
    return min(took)


@contextmanager
def server_of(kind: str, url: str | None) -> Iterator[str]:
    if url:
        yield url
        return
    folder = Path(tempfile.mkdtemp(prefix="limpet-bench-"))
    binary = Path(shutil.which("redis-server") or "redis-server") if kind == "system" else None
    name = "redis" if kind == "system" else kind
    server = RedisServer(folder, kind=name, binary=binary).start()
    try:
        yield server.url
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", default="redis")
    parser.add_argument("--url")
    parser.add_argument("--jobs", type=int, default=60_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    jobs, large = (3_000, 5_000) if given.quick else (given.jobs, given.large)
    with server_of(given.kind, given.url) as url, redis.Redis.from_url(url) as server:
        store = RedisStore(url)
        print(f"{store.info().engine}\n")
        print("| what | jobs/s | server µs per job | client µs per job |")
        print("|---|---:|---:|---:|")
        chunks = [new_jobs(CHUNK) for _ in range(max(1, jobs // CHUNK))]
        watch = Watch(server)
        for chunk in chunks:
            store.enqueue(chunk)
        watch.print_row("bulk enqueue, 1,000 at once", jobs)
        server.flushdb()
        for batch in (100, 300, 500):
            drain(store, server, f"exchange, batch {batch}", batch, jobs)
            server.flushdb()
        holder = Holder(store)
        fill(store, 2_000)
        for held in (0, 1_000, 2_000):
            while len(store.held(holder.session)) < held:
                holder.seq += 1
                want = Want((Pool(holder._tasks, {ANY_QUEUE: 1_000}, 1_000),))
                store.exchange(holder.session, holder.seq, (), want)
            watch = Watch(server)
            for _ in range(500):
                store.renew(holder.session)
            watch.print_row(f"renewals with {held:,} jobs held", 500)
        server.flushdb()
        print("\n| exchange of 100 | µs |\n|---|---:|")
        fill(store, 10_000)
        print(f"| with 10,000 waiting | {claim_time(store):.0f} |", flush=True)
        fill(store, large)
        print(f"| with {large:,} waiting | {claim_time(store):.0f} |", flush=True)
        holder = Holder(store)
        holder.exchange(500)
        while holder.held:
            holder.exchange(500)
        fill(store, 10_000)
        print(f"| with {large:,} finished | {claim_time(store):.0f} |", flush=True)
        store.close()


if __name__ == "__main__":
    main()
