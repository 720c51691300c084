"""Pruning by retention, in small steps."""

import threading
from collections.abc import Mapping
from datetime import timedelta

from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.domain.state import State
from limpet.maintenance.pruner import Pruner
from limpet.storage.sqlite.store import SqliteStore
from limpet.testing.clock import FakeClock


def store_with_cancelled(clock: FakeClock, count: int) -> SqliteStore:
    store = SqliteStore("sqlite://", clock)
    ids = IdSource(clock)
    for start in range(0, count, 1000):
        size = min(1000, count - start)
        jobs = [NewJob(id=ids.new(), task="t", args="{}") for _ in range(size)]
        store.enqueue(jobs)
        for job in jobs:
            store.cancel(job.id)
    return store


RETENTION: Mapping[State, timedelta] = {State.CANCELLED: timedelta(hours=2)}


def test_everything_old_is_pruned_in_steps_and_nothing_young() -> None:
    clock = FakeClock()
    store = store_with_cancelled(clock, 2100)
    pruner = Pruner(store, RETENTION)
    assert pruner.run().jobs == 0
    clock.advance(timedelta(hours=3))
    assert pruner.run().jobs == 2100
    assert store.queues()[0].counts == {}
    assert store.invariants() == ()
    store.close()


def test_a_pruner_that_is_told_to_stop_stops_after_its_step() -> None:
    clock = FakeClock()
    store = store_with_cancelled(clock, 1500)
    clock.advance(timedelta(hours=3))
    stop = threading.Event()
    stop.set()
    pruned = Pruner(store, RETENTION).run(stop)
    assert (pruned.jobs, pruned.more) == (1000, True)
    store.close()


def test_a_queue_may_keep_its_jobs_for_another_time() -> None:
    clock = FakeClock()
    store = store_with_cancelled(clock, 3)
    ids = IdSource(clock)
    kept, short = (NewJob(ids.new(), "t", "{}", queue) for queue in ("kept", "short"))
    store.enqueue([kept, short])
    for job in (kept, short):
        store.cancel(job.id)
    clock.advance(timedelta(minutes=90))
    by_queue = {
        "kept": {State.CANCELLED: timedelta(days=9)},
        "short": {State.CANCELLED: timedelta(hours=1)},
    }
    pruner = Pruner(store, RETENTION, by_queue)
    assert pruner.run().jobs == 1
    assert store.job(short.id) is None
    clock.advance(timedelta(hours=1))
    assert pruner.run().jobs == 3
    assert store.job(kept.id) is not None
    store.close()
