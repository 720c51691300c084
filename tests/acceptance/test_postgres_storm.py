"""Every verb at once, from many threads: no deadlock, no error, and everything holds at the end."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
from contract.driver import BOOM, EVERY_BACKEND, KILLED

from limpet.domain.cause import Drained
from limpet.domain.clock import SystemClock
from limpet.domain.errors import JobNotFound, MoveRefused
from limpet.domain.ids import IdSource
from limpet.domain.job import LogLine, NewJob, Progress, Report
from limpet.domain.lease import Lease
from limpet.domain.session import NewSession, SessionKind, Standing
from limpet.domain.state import State
from limpet.domain.transition import (
    Cancel,
    Complete,
    Fail,
    Orphan,
    Release,
    RetryAt,
    Settlement,
    Snooze,
)
from limpet.storage.base import ANY_QUEUE, Pool, Store, Want
from limpet.storage.postgres.store import PostgresStore

SECONDS = 5.0
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"

_ids = IdSource(SystemClock())


def _outcome(lease: Lease) -> Settlement:
    soon = SystemClock().wall() + random.randint(0, 200_000)
    outcomes: list[Settlement] = [
        RetryAt(lease, soon, BOOM),
        Release(lease, Drained()),
        Fail(lease, BOOM),
        Orphan(lease, KILLED, begun=True, alone=random.random() < 0.3),
        Cancel(lease),
        Snooze(lease, soon),
    ]
    return Complete(lease, "1") if random.random() < 0.6 else random.choice(outcomes)


class Worker:
    """Exchanges in one thread; renews, reports and releases in another."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.begin()

    def begin(self) -> None:
        new = NewSession(
            _ids.new(), SessionKind.WORKER, "w", "h", 1, timedelta(seconds=30),
            tasks=frozenset({"a", "b"}),
        )  # fmt: skip
        tasks = self.store.register(new).tasks
        self.want = Want((Pool(tasks, {"one": 20, ANY_QUEUE: 30}, 40, 5),))
        self.seq, self.held, self.id = 0, list[Lease](), new.id

    def exchange(self) -> None:
        words = [_outcome(lease) for lease in self.held if random.random() < 0.8]
        told = {word.lease for word in words}
        begun = [lease for lease in self.held if random.random() < 0.5]
        self.seq += 1
        answer = self.store.exchange(self.id, self.seq, words, self.want, begun)
        self.held = [lease for lease in self.held if lease not in told]
        self.held += [job.lease for job in answer.claimed]
        if answer.standing is Standing.DEAD:
            self.begin()

    def beside(self) -> None:
        session, held = self.id, list(self.held)
        match random.randrange(3):
            case 0:
                self.store.renew(session, held[::2])
            case 1:
                said = (Progress(1, 2, "half", 3), (LogLine(1, "info", "x"),))
                self.store.report(session, [Report(lease, *said) for lease in held[:20]])
            case _:
                self.store.release(session, held[:3], Drained())


def test_storm_of_all_verbs_meets_no_deadlock(tmp_path: Path) -> None:
    url = EVERY_BACKEND["postgres"](tmp_path)
    before = _deadlocks(url)
    jobs: list[NewJob] = []
    errors: list[BaseException] = []
    until = time.monotonic() + SECONDS
    with closing(PostgresStore(url)) as store, closing(PostgresStore(url)) as other:
        workers = [Worker(each) for each in (store, other, store, other)]

        def enqueue() -> None:
            new = [
                NewJob(_ids.new(), random.choice("ab"), "{}", random.choice(["one", "two"]))
                for _ in range(random.randint(1, 60))
            ]
            again = [random.choice(jobs)] if jobs else []
            other.enqueue([*new, *again], caps={"two": 5_000} if random.random() < 0.3 else None)
            jobs.extend(new)

        def control() -> None:
            if not jobs:
                return
            job = random.choice(jobs).id
            try:
                if random.random() < 0.7:
                    store.cancel(job)
                else:
                    store.retry(job, random.randint(1, 2))
            except (MoveRefused, JobNotFound):
                return

        def sweep() -> None:
            if random.random() < 0.05:
                store.end(random.choice(workers).id, KILLED)
            for dead in store.expire():
                store.recover(dead.id)
            store.promote()
            store.prune({State.SUCCEEDED: timedelta()})

        def again(step: Callable[[], None]) -> None:
            try:
                while time.monotonic() < until:
                    step()
            except BaseException as error:
                errors.append(error)

        steps = [worker.exchange for worker in workers] + [worker.beside for worker in workers]
        steps += [enqueue, control, control, sweep, sweep]
        threads = [threading.Thread(target=again, args=(step,)) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert store.invariants() == ()
    assert _deadlocks(url) == before


def _deadlocks(url: str) -> object:
    """So far; other tests have met some on the same server, on purpose."""
    with psycopg.connect(url) as connection:
        return connection.execute(DEADLOCKS).fetchone()
