"""The PostgreSQL store alone: bulk enqueue, settle and claim, renewals, and what slows them down.

    python benchmarks/postgres_store.py [URL]      without a URL: on a server of its own

The schema `limpet_bench` of the database is created anew; its data is lost.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.transition import Complete
from limpet.storage.contract.store import ANY_QUEUE, CHUNK, Pool, Store, Want
from limpet.storage.registry import open_store

SCHEMA = "limpet_bench"
JOBS = 60_000
_ids = IdSource(SystemClock())


def enqueue(store: Store, number: int) -> float:
    """Jobs a second, a chunk at a time."""
    jobs = [NewJob(_ids.new(), "task", '{"to": "a@b.c", "n": 1}') for _ in range(number)]
    began = time.perf_counter()
    for start in range(0, number, CHUNK):
        store.enqueue(jobs[start : start + CHUNK])
    return number / (time.perf_counter() - began)


class Worker:
    """A session that settles the jobs that it claimed last and claims new ones."""

    def __init__(self, store: Store, batch: int) -> None:
        self._store = store
        self._seq = 0
        self._held: list[Lease] = []
        tasks = frozenset({"task"})
        new = NewSession(
            _ids.new(), SessionKind.WORKER, "w", "h", 1, timedelta(hours=1), tasks=tasks
        )
        self.id = new.id
        self._want = Want((Pool(store.register(new).tasks, {ANY_QUEUE: batch}, batch),))

    def exchange(self) -> int:
        self._seq += 1
        done = [Complete(lease) for lease in self._held]
        answer = self._store.exchange(self.id, self._seq, done, self._want)
        self._held = [job.lease for job in answer.claimed]
        return len(done)

    def drain(self) -> float:
        """Jobs a second, until no job is ready."""
        began, settled = time.perf_counter(), 0
        self.exchange()
        while self._held:
            settled += self.exchange()
        return settled / (time.perf_counter() - began)

    def milliseconds(self, times: int) -> float:
        """The median of an exchange."""
        took = []
        for _ in range(times):
            began = time.perf_counter()
            self.exchange()
            took.append(time.perf_counter() - began)
        return sorted(took)[times // 2] * 1000


def measure(store: Store, url: str) -> Iterator[tuple[str, str]]:
    """Names of the figures, with their values."""
    yield "bulk enqueue", f"{enqueue(store, JOBS):,.0f} jobs/s"
    yield "settle and claim, batch 300", f"{Worker(store, 300).drain():,.0f} jobs/s"
    enqueue(store, JOBS)
    yield "settle and claim, batch 100", f"{Worker(store, 100).drain():,.0f} jobs/s"
    worker = Worker(store, 100)
    began = time.perf_counter()
    for _ in range(200):
        store.renew(worker.id)
    yield "renewal", f"{(time.perf_counter() - began) * 5:.2f} ms"
    enqueue(store, 10_000)
    yield "exchange of 100, 10,000 waiting", f"{worker.milliseconds(80):.2f} ms"
    enqueue(store, 1_000_000)
    yield "exchange of 100, a million waiting", f"{Worker(store, 100).milliseconds(200):.2f} ms"
    with psycopg.connect(url) as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1 FROM limpet_bench.job LIMIT 1")
        late = Worker(store, 100)
        late.milliseconds(800)
        yield "the same after 80,000 jobs under an old snapshot", f"{late.milliseconds(200):.2f} ms"


@contextmanager
def server() -> Iterator[str]:
    from servers.postgres import PostgresServer

    with TemporaryDirectory(prefix="limpet-bench-") as folder:
        Path(folder).chmod(0o755)
        own = PostgresServer(Path(folder) / "server", fsync="on", full_page_writes="on").start()
        try:
            yield own.url
        finally:
            own.stop()


def run(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("SET client_min_messages = warning")
        admin.execute("DROP SCHEMA IF EXISTS limpet_bench CASCADE")
    with closing(open_store(f"{url}?schema={SCHEMA}")) as store:
        store.migrate()
        info = store.info()
        print(f"{info.engine}: {info.durability}", flush=True)
        for what, figure in measure(store, url):
            print(f"{what:<52} {figure:>16}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1])
    else:
        with server() as own_url:
            run(own_url)
