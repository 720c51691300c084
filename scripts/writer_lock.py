"""Four processes claim, settle and enqueue on one SQLite file while each renews every 100 ms.

Run by hand: `python scripts/writer_lock.py --seconds 20`. With `--bypass` the processes wait by
SQLite's own busy handler instead of the writer lock, which shows why there is one.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.synchronize import Barrier
from pathlib import Path

import apsw

from limpet.domain.cause import Drained
from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.job import JobFilter, NewJob
from limpet.domain.session import NewSession, SessionKind, Standing
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.store import ANY_QUEUE, Pool, Want
from limpet.storage.sqlite.store import SqliteStore

TASK = "work"
PROCESSES = 4
BATCH = 20
RENEW_EVERY_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 0.25
LARGEST_RATIO = 2.0
_TASKS = frozenset({TASK})


@dataclass
class Share:
    """The work of one process; `waits` are the seconds that each of its renewals took."""

    enqueued: list[str] = field(default_factory=list)
    claimed: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Result:
    """The work of all processes, and every fault of the store."""

    seconds: float
    shares: list[Share]
    troubles: list[str]

    @property
    def jobs(self) -> list[int]:
        return [len(share.claimed) for share in self.shares]

    @property
    def ratio(self) -> float:
        return max(self.jobs) / max(1, min(self.jobs))

    def wait(self, quantile: float = 1.0) -> float:
        """How long a renewal took, in seconds, at the given quantile."""
        waits = sorted(wait for share in self.shares for wait in share.waits)
        return waits[min(len(waits) - 1, int(quantile * len(waits)))]

    @property
    def renewals(self) -> int:
        return sum(len(share.waits) for share in self.shares)

    def summary(self) -> str:
        """The figures as one sentence."""
        return (
            f"{sum(self.jobs)} jobs in {self.seconds:.0f} s, shares {self.jobs} (ratio "
            f"{self.ratio:.2f}); {self.renewals} renewals, waits p50 "
            f"{self.wait(0.5) * 1000:.1f} ms, p99 {self.wait(0.99) * 1000:.1f} ms, worst "
            f"{self.wait() * 1000:.1f} ms; {len(self.troubles)} troubles"
        )


def run(
    folder: Path, seconds: float, *, bypass: bool = False, processes: int = PROCESSES
) -> Result:
    """Let the processes work on a new file, then run the remaining jobs and judge the file."""
    url = f"sqlite:///{folder / 'jobs.db'}"
    store = SqliteStore(url)
    first, rest = Share(), Share()
    _enqueue(store, IdSource(SystemClock()), first, processes * BATCH * 2)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes)
    files = [folder / f"share{number}" for number in range(processes)]
    workers = [
        context.Process(target=work, args=(url, str(file), seconds, barrier, bypass))
        for file in files
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    shares = [Share(**json.loads(file.read_text())) for file in files]
    with contextlib.closing(store):
        _work(store, rest, lambda: _left(store))
        troubles = list(_judge(store, [first, *shares, rest]))
    return Result(seconds, shares, troubles)


def work(url: str, share_file: str, seconds: float, barrier: Barrier, bypass: bool) -> None:
    """One process: claims, settles and enqueues until the time is up, then writes its share."""
    if bypass:
        bypass_writer_lock()
    share = Share()
    with contextlib.closing(SqliteStore(url)) as store:
        store.info()
        barrier.wait()
        until = time.monotonic() + seconds
        try:
            _work(store, share, lambda: time.monotonic() < until, IdSource(SystemClock()))
        except Exception as error:
            share.troubles.append(f"{type(error).__name__}: {error}")
    Path(share_file).write_text(json.dumps(asdict(share)))


def _work(
    store: SqliteStore, share: Share, go_on: Callable[[], bool], refill: IdSource | None = None
) -> None:
    session = IdSource(SystemClock()).new()
    new = NewSession(session, SessionKind.WORKER, "turns", "here", os.getpid(), tasks=_TASKS)
    want = Want((Pool(store.register(new).tasks, {ANY_QUEUE: BATCH}, BATCH),))
    over = threading.Event()
    heart = threading.Thread(target=_renew, args=(store, session, share, over))
    heart.start()
    try:
        seq = 0
        settlements: list[Complete] = []
        while settlements or go_on():
            seq += 1
            answer = store.exchange(session, seq, settlements, want if go_on() else None)
            share.troubles += [f"{no.answer} for {no.lease}" for no in answer.rejected]
            settlements = [Complete(job.lease) for job in answer.claimed]
            share.claimed += [job.lease.job for job in answer.claimed]
            if refill is not None and go_on():
                _enqueue(store, refill, share, BATCH)
    finally:
        over.set()
        heart.join()
    store.end(session, Drained())


def _renew(store: SqliteStore, session: str, share: Share, over: threading.Event) -> None:
    due = time.monotonic()
    while not over.is_set():
        before = time.monotonic()
        renewed = store.renew(session)
        share.waits.append(time.monotonic() - before)
        if renewed.standing is not Standing.LIVE:
            share.troubles.append(f"the session is {renewed.standing}")
        due = max(due + RENEW_EVERY_SECONDS, time.monotonic())
        over.wait(due - time.monotonic())


def _enqueue(store: SqliteStore, ids: IdSource, share: Share, count: int) -> None:
    jobs = [NewJob(ids.new(), TASK, "{}") for _ in range(count)]
    store.enqueue(jobs)
    share.enqueued += [job.id for job in jobs]


def _left(store: SqliteStore) -> bool:
    return any(queue.counts.get(State.READY) for queue in store.queues())


def _judge(store: SqliteStore, shares: list[Share]) -> Iterator[str]:
    """Read the file at the end: every job there, claimed once, succeeded."""
    for share in shares:
        yield from share.troubles
    enqueued = [job for share in shares for job in share.enqueued]
    claimed = Counter(job for share in shares for job in share.claimed)
    yield from (f"claimed {times} times: {job}" for job, times in claimed.items() if times > 1)
    found: set[str] = set()
    cursor: str | None = None
    while True:
        page = store.jobs(JobFilter(), cursor, limit=1_000)
        for job in page.jobs:
            found.add(job.id)
            if job.state is not State.SUCCEEDED or job.token != 1:
                yield f"{job.id} is {job.state} under token {job.token}"
        cursor = page.cursor
        if cursor is None:
            break
    yield from (f"lost: {job}" for job in set(enqueued) - found)
    yield from (f"from nowhere: {job}" for job in found - set(enqueued))
    yield from (f"never claimed: {job}" for job in found - set(claimed))
    yield from (str(broken) for broken in store.invariants())


def bypass_writer_lock() -> None:
    """In this process, wait for SQLite's write lock with its busy handler, not the writer lock."""
    from limpet.storage.sqlite import database
    from limpet.storage.sqlite.writer_lock import WriterLock

    @contextlib.contextmanager
    def at_once(_self: WriterLock, *, urgent: bool) -> Iterator[bool]:
        yield True

    def begin(connection: apsw.Connection) -> None:
        connection.set_busy_timeout(30_000)
        connection.execute("BEGIN IMMEDIATE")

    for name in ("take", "take_if_free"):
        setattr(WriterLock, name, at_once)
    setattr(database, "begin", begin)  # noqa: B010


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--bypass", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = run(Path(folder), given.seconds, bypass=given.bypass, processes=given.processes)
    print(result.summary())
    for trouble in result.troubles[:10]:
        print(trouble)
    good = (
        not result.troubles
        and result.wait() <= LONGEST_WAIT_SECONDS
        and result.ratio <= LARGEST_RATIO
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
