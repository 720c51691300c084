"""Half of a surrogate pair is no text: it is refused with a sentence, and nothing is written."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from contract.driver import MINUTE, Holder, add, new_id, new_job, state

from limpet.domain.errors import InvalidOption
from limpet.domain.job import JobFilter, NewJob
from limpet.domain.queue import QueueRules
from limpet.domain.schedule import Schedule, Timing
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.store import Store

HALF = "a\ud800b"


def a_schedule(**fields: str) -> Schedule:
    job = NewJob("", "task", fields.get("args", "{}"))
    return Schedule(id=fields.get("id", "s"), job=job, timing=Timing(every=MINUTE), next_at=1)


def a_session(**fields: str) -> NewSession:
    about = {"name": "n", "host": "h", **fields}
    return NewSession(new_id(), SessionKind.WORKER, about["name"], about["host"], 1)


WRITES: dict[str, Callable[[Store], object]] = {
    **{
        f"job.{field}": lambda store, field=field: store.enqueue(  # type: ignore[misc]
            [new_job(), new_job(**{field: HALF})]
        )
        for field in ("args", "options", "queue", "task", "key", "unique", "weight_class")
    },
    "job.secrets": lambda store: store.enqueue([new_job(), new_job(secrets=(HALF,))]),
    "session.name": lambda store: store.register(a_session(name=HALF)),
    "session.host": lambda store: store.register(a_session(host=HALF)),
    "schedule.id": lambda store: store.put_schedule(a_schedule(id=HALF)),
    "schedule.args": lambda store: store.put_schedule(a_schedule(args=HALF)),
    "queue.name": lambda store: store.limit_queue(HALF, QueueRules(concurrency=1)),
    "key.name": lambda store: store.limit_key(HALF, 1, None),
    "host.body": lambda store: store.publish_host("s", HALF, timedelta(minutes=1)),
}


def test_what_is_no_text_is_refused_and_nothing_is_written(store: Store) -> None:
    for name, write in WRITES.items():
        with pytest.raises(InvalidOption, match="surrogate"):
            pytest.fail(f"{name} was taken: {write(store)}")
    assert store.jobs(JobFilter()).jobs == ()
    assert store.sessions() == ()
    assert store.schedules() == ()
    assert store.hosts() == ()


def test_result_that_is_no_text_is_refused_and_the_job_still_runs(
    store: Store, holder: Holder
) -> None:
    job = add(store)
    lease = holder.take()
    with pytest.raises(InvalidOption, match="surrogate"):
        holder.settle(Complete(lease, f'"{HALF}"'))
    assert state(store, job) is State.RUNNING
    assert store.exchange(holder.id, holder.seq, [Complete(lease)], None).rejected == ()
