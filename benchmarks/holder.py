"""Jobs and a session for measuring the verbs of a store directly, without a worker."""

import os
from datetime import timedelta

from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.job import ClaimedJob, NewJob
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.transition import Complete
from limpet.storage.contract.store import ANY_QUEUE, CHUNK, Pool, Store, Want

IDS = IdSource(SystemClock())
TASK = "email.send"
ARGS = '{"to": "someone@example.org", "template": "welcome", "n": 12345}'


def new_jobs(count: int) -> list[NewJob]:
    return [NewJob(IDS.new(), TASK, ARGS) for _ in range(count)]


def fill(store: Store, count: int) -> None:
    for start in range(0, count, CHUNK):
        store.enqueue(new_jobs(min(CHUNK, count - start)))


class Holder:
    """A session that settles the jobs that it holds and claims new ones."""

    def __init__(self, store: Store, lease: timedelta = timedelta(hours=1)) -> None:
        self.store = store
        self.session = IDS.new()
        self.seq = 0
        self.held: tuple[ClaimedJob, ...] = ()
        new = NewSession(
            self.session, SessionKind.WORKER, "b", "h", os.getpid(), lease, frozenset({TASK})
        )
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
