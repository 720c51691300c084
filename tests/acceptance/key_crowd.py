"""Processes that all use a few keys: each works, enqueues, cancels, limits and sweeps at once."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from typing import Any

from contract.driver import BOOM, KILLED

from limpet.domain.cause import Drained
from limpet.domain.clock import SystemClock
from limpet.domain.errors import JobNotFound, MoveRefused
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.queue import QueueRules
from limpet.domain.rate import Rate
from limpet.domain.rules import ChildFailure, Rules, UniqueUntil
from limpet.domain.session import NewSession, SessionKind, Standing
from limpet.domain.state import State
from limpet.domain.transition import (
    AwaitChildren,
    Complete,
    Fail,
    Release,
    RetryAt,
    Settlement,
    SnoozeUntil,
)
from limpet.storage.contract.store import ANY_QUEUE, Pool, Want
from limpet.storage.postgres.store import PostgresStore

KEYS = [f"key-{number}" for number in range(6)]


class Actor:
    """One process at the store: a worker, an enqueuer, a person, a sweeper."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.ids = IdSource(SystemClock())
        self.jobs: list[str] = []
        self.begin()

    def begin(self) -> None:
        new = NewSession(
            self.ids.new(), SessionKind.WORKER, "w", "h", 1, timedelta(seconds=30),
            tasks=frozenset(random.choice(["ab", "ab", "abc"])),
        )  # fmt: skip
        tasks = self.store.register(new).tasks
        self.want = Want((Pool(tasks, {ANY_QUEUE: 20}, 20, 5),))
        self.seq, self.held, self.id = 0, list[Lease](), new.id

    # -- jobs

    def new(self, **fields: Any) -> NewJob:
        job = NewJob(self.ids.new(), random.choice("aabbc"), "{}", random.choice(["one", "two"]))
        job = job._replace(key=random.choice(KEYS))._replace(**fields)
        self.jobs.append(job.id)
        return job

    def soon(self) -> int:
        return SystemClock().wall() + random.randint(-100_000, 200_000)

    def several(self) -> list[NewJob]:
        """Jobs with and without turns, uniques, times and children."""
        jobs = [self.new(rules=Rules(key_limit=random.randint(1, 3))) for _ in range(4)]
        jobs += [self.new(scheduled_for=self.soon()) for _ in range(3)]
        jobs += [self.new(expires_at=self.soon())]
        jobs += [self.new(rules=Rules(key_strict=True))]
        unique = Rules(unique_until=UniqueUntil.STARTED, replaces=True)
        jobs += [self.new(task="a", unique=f"u{random.randrange(3)}", rules=unique)]
        top = self.new(rules=Rules(children=3))
        how = random.choice(list(ChildFailure))
        jobs += [top, *(self.new(parent=top.id, rules=Rules(child_failure=how)) for _ in range(3))]
        random.shuffle(jobs)
        return sorted(jobs, key=lambda job: job.parent is not None)

    # -- what they do

    def enqueue(self) -> None:
        if random.random() < 0.2:
            flow = self.ids.new()
            self.store.stage(flow, 0, self.several())
            self.store.commit(flow, 1)
        else:
            self.store.enqueue(self.several())
        time.sleep(0.02)

    def outcome(self, lease: Lease) -> Settlement:
        outcomes: list[Settlement] = [
            RetryAt(lease, self.soon(), BOOM),
            Release(lease, Drained()),
            Fail(lease, BOOM, relaunch_at=random.choice([None, self.soon()])),
            SnoozeUntil(lease, self.soon(), holds=random.random() < 0.2),
        ]
        if random.random() < 0.05:
            flow, number = self.ids.new(), random.randrange(3)
            self.store.stage(flow, 0, [self.new(parent=lease.job) for _ in range(number)])
            return AwaitChildren(lease, flow, 1, number)
        return Complete(lease, "1") if random.random() < 0.6 else random.choice(outcomes)

    def exchange(self) -> None:
        words = [self.outcome(lease) for lease in self.held if random.random() < 0.8]
        random.shuffle(words)
        told = {word.lease for word in words}
        self.seq += 1
        answer = self.store.exchange(self.id, self.seq, words, self.want)
        self.held = [lease for lease in self.held if lease not in told]
        self.held += [job.lease for job in answer.claimed]
        if answer.standing is Standing.DEAD:
            self.begin()

    def control(self) -> None:
        some = random.choices(self.jobs, k=5) if self.jobs else []
        with suppress(MoveRefused, JobNotFound):
            match random.randrange(8):
                case 0 | 1:
                    for job in some:
                        self.store.cancel(job)
                case 2:
                    for job in some:
                        self.store.retry(job, 1)
                case 3:
                    self.store.requeue(some, random.choice(["one", "two"]))
                case 4:
                    rules = QueueRules(concurrency=random.choice([None, 10]))
                    self.store.limit_queue(random.choice(["one", "two"]), rules)
                case 5:
                    self.store.renew(self.id)
                case _:
                    rate = random.choice([None, None, Rate(50, 1_000_000, 5)])
                    self.store.limit_key(random.choice(KEYS), random.choice([None, 1, 3]), rate)

    def sweep(self) -> None:
        if random.random() < 0.02:
            self.store.end(self.id, KILLED)
        for dead in self.store.expire():
            self.store.recover(dead.id)
        self.store.promote()
        if random.random() < 0.1:
            self.store.prune({State.SUCCEEDED: timedelta()})


def act(url: str, seconds: float) -> None:
    """What one process does, each verb in a thread; it ends with 0 if none was refused."""
    errors: list[BaseException] = []
    with closing(PostgresStore(url)) as store:
        actor = Actor(store)
        until = time.monotonic() + seconds

        def again(step: Callable[[], None]) -> None:
            try:
                while time.monotonic() < until:
                    step()
            except BaseException as error:
                errors.append(error)

        steps = [actor.exchange, actor.enqueue, actor.control, actor.sweep]
        threads = [threading.Thread(target=again, args=(step,)) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
