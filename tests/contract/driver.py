"""What the contract tests say to a store, in few words; only the Protocols are used."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from equality import STORES
from servers.empty import empty_postgres, empty_redis

from limpet.domain.breaker import Observed
from limpet.domain.cause import Cause, Raised, WorkerKilled
from limpet.domain.event import Event, EventName, timeline
from limpet.domain.job import ClaimedJob, Job, NewJob
from limpet.domain.lease import Lease
from limpet.domain.queue import QueueView
from limpet.domain.session import DEFAULT_LEASE, NewSession, Session, SessionKind, SessionLock
from limpet.domain.state import State
from limpet.domain.transition import Rejected, Settlement
from limpet.storage.answers import Exchanged, Renewed
from limpet.storage.base import ANY_QUEUE, Pool, Store, Want

# Every store that keeps the contract: its name, and its URL in a fresh folder.
EVERY_BACKEND: dict[str, Callable[[Path], str]] = {
    "sqlite-file": lambda folder: f"sqlite:///{folder}/jobs.db?synchronous=normal",
    "sqlite-memory": lambda folder: "sqlite://",
    "redis": lambda folder: empty_redis("redis"),
    "valkey": lambda folder: empty_redis("valkey"),
    "postgres": lambda folder: empty_postgres("postgres"),
    "postgres15": lambda folder: empty_postgres("postgres15"),
}
# The older PostgreSQL runs the same SQL as the newer one; `make prove` takes it through all of it.
LONG = "LIMPET_TEST_LONG" in os.environ
# `make check` asks for one store only, by name.
CHOSEN = set(os.environ.get(STORES, ",".join(EVERY_BACKEND)).split(","))
BACKENDS = {
    name: url
    for name, url in EVERY_BACKEND.items()
    if name in CHOSEN and (LONG or name != "postgres15")
}

SECOND = 1_000_000
MINUTE = 60 * SECOND
LEASE = DEFAULT_LEASE
BOOM = Raised("ValueError", "boom")
KILLED = WorkerKilled(signal=9)
HOOK = '{"orphan_hook": true}'

_numbers = count(1)


def new_id() -> str:
    """An id that sorts after the earlier ones, the same in every run."""
    return f"{next(_numbers):026d}"


def new_job(task: str = "task", **fields: Any) -> NewJob:
    return NewJob(**{"id": new_id(), "task": task, "args": "{}", **fields})


def add(store: Store, task: str = "task", **fields: Any) -> str:
    """Enqueue one job and return its id."""
    job = new_job(task, **fields)
    store.enqueue([job])
    return job.id


def add_many(store: Store, number: int, **fields: Any) -> list[str]:
    jobs = [new_job(**fields) for _ in range(number)]
    store.enqueue(jobs)
    return [job.id for job in jobs]


def get(store: Store, job: str) -> Job:
    found = store.job(job)
    assert found is not None
    return found


def history(store: Store, job: str) -> list[Event]:
    """The job's timeline."""
    return timeline(get(store, job), list(store.events(job)))


def told(store: Store, job: str) -> list[EventName | str]:
    return [event.event for event in history(store, job)]


def counts(store: Store, queue: str = "default") -> Mapping[State, int]:
    return next((view.counts for view in store.queues() if view.name == queue), {})


def state(store: Store, job: str) -> State:
    return get(store, job).state


def states(store: Store, jobs: Sequence[str]) -> list[State]:
    """The states of jobs that are all there, in their order."""
    found = store.states(jobs)
    return [found[job] for job in jobs]


def view(store: Store, queue: str = "default") -> QueueView:
    return next(each for each in store.queues() if each.name == queue)


def total(store: Store, move: str, queue: str = "default") -> int:
    """How often a move was made."""
    return sum(each.count for each in store.totals() if (each.queue, each.move) == (queue, move))


def promote_all(store: Store) -> int:
    """Promote until nothing is left to do now; how many calls that took."""
    calls = 1
    while store.promote().more:
        calls += 1
    return calls


def session_of(store: Store, session: str) -> Session:
    return next(each for each in store.sessions(with_dead=True) if each.id == session)


class Holder:
    """A worker's end of the contract: it registers, counts its exchanges and keeps its leases."""

    def __init__(
        self,
        store: Store,
        tasks: Sequence[str] = ("task",),
        *,
        pools: Sequence[Sequence[str]] = (),
        lease: timedelta = LEASE,
        session: str | None = None,
        lock: SessionLock | None = None,
        schedules: Sequence[str] = (),
    ) -> None:
        self.store = store
        self.seq = 0
        self.new = NewSession(
            id=session or new_id(),
            kind=SessionKind.WORKER,
            name="worker",
            host="host",
            pid=1,
            lease=lease,
            tasks=frozenset(tasks),
            pools=tuple(frozenset(part) for part in pools),
            lock=lock,
            schedules=frozenset(schedules),
        )
        self.id = self.new.id
        self.registered = store.register(self.new)

    def pool(
        self, total: int = 10, slots: Mapping[str, int] | None = None, suspects: int = 0
    ) -> Pool:
        places = {ANY_QUEUE: total} if slots is None else slots
        return Pool(self.registered.tasks, places, total, suspects)

    def want(
        self, total: int = 10, slots: Mapping[str, int] | None = None, suspects: int = 0
    ) -> Want:
        return Want((self.pool(total, slots, suspects),))

    def exchange(
        self,
        *settlements: Settlement,
        want: Want | None = None,
        begun: Sequence[Lease] = (),
        observed: Sequence[Observed] = (),
    ) -> Exchanged:
        self.seq += 1
        return self.store.exchange(self.id, self.seq, settlements, want, begun, observed)

    def claim(
        self, total: int = 10, slots: Mapping[str, int] | None = None, suspects: int = 0
    ) -> tuple[ClaimedJob, ...]:
        return self.exchange(want=self.want(total, slots, suspects)).claimed

    def claim_ids(
        self, total: int = 10, slots: Mapping[str, int] | None = None, suspects: int = 0
    ) -> list[str]:
        return [each.lease.job for each in self.claim(total, slots, suspects)]

    def take(self, suspects: int = 0, *, begin: bool = False) -> Lease:
        """Claim the next job and return its lease; `begin` says that it has started."""
        (job,) = self.claim(1, suspects=suspects)
        if begin:
            self.renew(begun=[job.lease])
        return job.lease

    def take_of(self, queue: str) -> Lease:
        """Claim the next job of one queue and return its lease."""
        (job,) = self.claim(1, {queue: 1})
        return job.lease

    def settle(self, *settlements: Settlement) -> tuple[Rejected, ...]:
        return self.exchange(*settlements).rejected

    def renew(
        self, begun: Sequence[Lease] = (), *, draining: bool = False, stepped: bool = False
    ) -> Renewed:
        return self.store.renew(self.id, begun, draining, stepped)

    def release(self, *leases: Lease, cause: Cause) -> tuple[Rejected, ...]:
        return self.store.release(self.id, leases, cause)

    def die(self, cause: Cause = KILLED) -> None:
        """Be declared dead, the jobs still on the row."""
        assert self.store.end(self.id, cause)

    def vanish(self, cause: Cause = KILLED) -> None:
        """Be declared dead and recovered."""
        self.die(cause)
        while self.store.recover(self.id).more:
            pass
