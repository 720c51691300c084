"""A store with jobs that have been through everything, and all that can be seen of it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from contract.driver import BOOM, HOOK, KILLED, SECOND, Holder, add, add_many, get

from limpet.domain.breaker import BreakerStatus
from limpet.domain.cause import Drained
from limpet.domain.event import Event
from limpet.domain.job import Job, JobFilter, LogLine, Progress, Report
from limpet.domain.lease import Lease
from limpet.domain.queue import REPEAT_WINDOW, QueueView
from limpet.domain.state import State
from limpet.domain.transition import (
    Cancel,
    Complete,
    Fail,
    Orphan,
    Quarantine,
    Release,
    RetryAt,
    Settlement,
)
from limpet.storage.contract.answers import Total
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

HOUR = 3600 * SECOND
ODD: dict[str, Any] = {
    "queue": "odd",
    "args": '{"name": "Ünï\\u0000 \\"quoted\\"", "pin": 4711}',
    "options": '{"timeout": 60, "something_new": [1, {"a": null}]}',
    "secrets": ("pin", "a~1b/c"),
    "priority": -7,
    "root": "r" * 26,
    "weight_class": "heavy",
    "payload_version": 3,
}


def furnish(store: Store, clock: FakeClock) -> list[str]:
    """Bring jobs into every state but `running`, by every way; the ids of those that are left."""
    return _Furnisher(store, clock).run()


class _Furnisher:
    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.holder = Holder(store)
        self.jobs: list[str] = []

    def run(self) -> list[str]:
        self._pruned()
        self._waiting()
        self._ended()
        self._lost()
        self._told()
        self._again()
        self.store.pause("still")
        self.store.pause("waiting")
        self.holder.die(Drained())
        self.clock.advance(timedelta(seconds=1))
        return self.jobs

    def begin(self, **fields: Any) -> Lease:
        """A new job that runs; nothing else of its queue is ready."""
        fields = {"queue": "work", **fields}
        self.jobs.append(add(self.store, **fields))
        (claimed,) = self.holder.claim(1, slots={fields["queue"]: 1}, suspects=1)
        assert claimed.lease.job == self.jobs[-1]
        self.holder.renew(begun=[claimed.lease])
        self.clock.advance(timedelta(milliseconds=7))
        return claimed.lease

    def settle(self, *said: Settlement) -> None:
        assert self.holder.settle(*said) == ()
        self.clock.advance(timedelta(milliseconds=7))

    def _pruned(self) -> None:
        gone = add(self.store, queue="gone")
        self.store.cancel(gone)
        self.clock.advance(REPEAT_WINDOW + timedelta(seconds=1))
        assert self.store.prune({State.CANCELLED: timedelta()}).jobs == 1
        self.holder = Holder(self.store)

    def _waiting(self) -> None:
        now = self.clock.wall()
        self.jobs += add_many(self.store, 3, queue="waiting")
        self.jobs += add_many(self.store, 2, queue="waiting", priority=5)
        self.jobs.append(add(self.store, **ODD, key="customer:42", unique="welcome 42"))
        later: dict[str, Any] = {"scheduled_for": now + HOUR, "queue": "later"}
        self.jobs.append(add(self.store, **later))
        limits = {"expires_at": now + 9 * HOUR, "deadline_at": now + 8 * HOUR}
        self.jobs.append(add(self.store, **{**ODD, **later, **limits}))
        self.jobs.append(add(self.store, queue="waiting", expires_at=now + 5 * HOUR))
        self.jobs.append(add(self.store, "stranger", queue="blocked", deadline_at=now + HOUR))
        self.holder.claim(1, slots={"blocked": 1})
        assert get(self.store, self.jobs[-1]).state is State.BLOCKED

    def _ended(self) -> None:
        self.settle(Complete(self.begin(), '{"token": "x", "n": [1.5]}', ("token",)))
        strange = {"queue": "strange", "key": "customer:43", "unique": "welcome 43"}
        self.settle(Complete(self.begin(**{**ODD, **strange})))
        self.settle(Fail(self.begin(), BOOM))
        self.settle(Quarantine(self.begin(), BOOM))
        self.jobs.append(add(self.store, queue="later", scheduled_for=self.clock.wall() + HOUR))
        self.store.cancel(self.jobs[-1], "not wanted")
        lease = self.begin()
        self.store.cancel(lease.job, "no longer wanted")
        self.settle(Cancel(lease))
        self.jobs.append(add(self.store, queue="later", expires_at=self.clock.wall() + 1))
        self.clock.advance(timedelta(milliseconds=7))
        self.store.promote()

    def _lost(self) -> None:
        lease = self.begin(queue="released")
        self.settle(Release(lease, Drained()))
        self.holder.settle(Fail(lease, BOOM))  # too late, which the timeline tells
        self.settle(Orphan(self.begin(queue="suspects"), KILLED, True, False))
        alone = self.begin(queue="alone", options=HOOK)
        self.settle(Orphan(alone, KILLED, True, True))
        last = self.begin(queue="last", options=HOOK)
        for number in range(3):
            self.settle(Orphan(last, KILLED, True, True))
            if number < 2:
                (claimed,) = self.holder.claim(1, slots={"last": 1}, suspects=1)
                last = claimed.lease
        dying = Holder(self.store)
        self.jobs.append(add(self.store, queue="recovered"))
        (claimed,) = dying.claim(1, slots={"recovered": 1})
        dying.renew(begun=[claimed.lease])
        dying.vanish(KILLED)

    def _told(self) -> None:
        lease = self.begin(queue="told")
        now = self.clock.wall()
        lines = tuple(LogLine(now + n, "info", f"line {n} “ü”\n") for n in range(5))
        progress = Progress(3.0, 10.0, "nearly", now)
        self.holder.store.report(self.holder.id, [Report(lease, progress, lines)])
        self.settle(RetryAt(lease, now + HOUR, BOOM))
        done = self.begin(queue="told")
        self.holder.store.report(self.holder.id, [Report(done, Progress(1.0, None, "", now), ())])
        self.settle(Complete(done, '"done"'))

    def _again(self) -> None:
        lease = self.begin(queue="again")
        self.settle(Complete(lease, "1"))
        assert self.store.retry(lease.job, 1) == 2
        (claimed,) = self.holder.claim(1, slots={"again": 1})
        self.settle(Fail(claimed.lease, BOOM))
        assert self.store.retry(lease.job, 2) == 3


class Seen(NamedTuple):
    """What the verbs that read show of a store."""

    jobs: dict[str, Job]
    events: dict[str, tuple[Event, ...]]
    logs: dict[str, tuple[LogLine, ...]]
    queues: tuple[QueueView, ...]
    totals: tuple[Total, ...]
    breakers: tuple[BreakerStatus, ...]


def seen(store: Store) -> Seen:
    """Everything; but for whether a job that does not run has begun, which means nothing."""
    jobs: list[Job] = []
    cursor = None
    while True:
        page = store.jobs(JobFilter(), cursor, 1_000)
        jobs += page.jobs
        cursor = page.cursor
        if cursor is None:
            break
    return Seen(
        {job.id: replace(job, begun=job.begun and job.state is State.RUNNING) for job in jobs},
        {job.id: store.events(job.id) for job in jobs},
        {job.id: store.log(job.id) for job in jobs},
        store.queues(),
        store.totals(),
        store.breakers(),
    )
