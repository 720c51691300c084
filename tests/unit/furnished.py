"""A store with something of everything in it."""

from limpet.domain.cause import Raised, WorkerKilled
from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, Quarantine, RetryAt, Settlement
from limpet.storage.contract.store import ANY_QUEUE, Pool, Store, Want


def furnish(store: Store) -> None:
    """Bring in a job in every state that a job comes to by itself, and a dead session."""
    ids = IdSource(SystemClock())
    tasks = frozenset({"work"})
    live, dead = ids.new(), ids.new()
    later = SystemClock().wall() + 3_600_000_000
    store.enqueue([NewJob(ids.new(), "work", '{"n": 1}') for _ in range(7)])
    store.enqueue([NewJob(ids.new(), "stranger", "{}")])
    store.enqueue([NewJob(ids.new(), "work", "{}", priority=3, scheduled_for=later)])
    for session in (dead, live):
        new = NewSession(session, SessionKind.WORKER, "w", "h", 1, tasks=tasks)
        digest = store.register(new).tasks
    want = Want((Pool(digest, {ANY_QUEUE: 4}, 4),))
    one = Want((Pool(digest, {ANY_QUEUE: 1}, 1),))
    first, second, third, fourth = store.exchange(dead, 1, (), want).claimed
    error = Raised("ValueError", "no")
    outcomes: list[Settlement] = [
        Complete(first.lease, "[1]"),
        Fail(second.lease, error),
        RetryAt(third.lease, later, error),
        Quarantine(fourth.lease, error),
    ]
    lost = store.exchange(dead, 2, outcomes, one).claimed
    store.renew(dead, [job.lease for job in lost])
    store.end(dead, WorkerKilled(9))
    store.recover(dead)
    many = Want((Pool(digest, {ANY_QUEUE: 9}, 9),))
    held = store.exchange(live, 1, (), many).claimed
    store.release(live, [job.lease for job in held[1:]], WorkerKilled(15))
    assert store.queues()[0].counts.keys() == set(State) - {State.CANCELLED}
    assert store.invariants() == ()
