"""requeue: jobs that wait go to another queue, in the order that they had."""

from contextlib import closing
from datetime import timedelta

from contract.driver import (
    BOOM,
    SECOND,
    Holder,
    add,
    add_many,
    counts,
    get,
    new_id,
    state,
    states,
    told,
    total,
    view,
)
from contract.families import flow
from contract.keys import WAITS, keyed

from limpet.domain.event import EventName
from limpet.domain.queue import QueueRules
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, Quarantine
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock


def test_waiting_jobs_go_over_in_their_order(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    jobs = add_many(store, 4)
    urgent = add(store, priority=1)
    clock.advance(timedelta(seconds=1))
    there = add(store, queue="new")
    before = get(store, jobs[2])
    assert store.requeue([jobs[2], urgent, jobs[0]], "new") == 3
    kept = get(store, jobs[2])
    assert (kept.queue, kept.state, kept.ready_at) == ("new", State.READY, before.ready_at)
    assert counts(store) == {State.READY: 2}
    assert counts(store, "new") == {State.READY: 4}
    assert told(store, urgent)[-1] is EventName.REQUEUED
    assert total(store, "requeue", "new") == 3
    assert holder.claim_ids(10, {"new": 10}) == [urgent, jobs[0], jobs[2], there]
    assert holder.claim_ids() == [jobs[1], jobs[3]]


def test_scheduled_and_blocked_jobs_stay_so(store: Store, holder: Holder, clock: FakeClock) -> None:
    later = add(store, scheduled_for=clock.wall() + SECOND)
    first, second = keyed(store, 2)
    strange = add(store, "strange")
    held = holder.take()
    assert held.job == first
    holder.claim()
    top, _ = flow(store, 1)
    jobs = [later, second, strange, top]
    assert store.requeue(jobs, "new") == 4
    assert states(store, jobs) == [State.SCHEDULED] + [State.BLOCKED] * 3
    assert [get(store, job).blocked_by for job in jobs[1:]] == [
        WAITS,
        "needs task strange",
        "waits for its children",
    ]
    assert counts(store, "new") == {State.SCHEDULED: 1, State.BLOCKED: 3}
    clock.advance(timedelta(seconds=1))
    store.promote()
    holder.settle(Complete(held))
    holder.settle(Complete(holder.take_of("default")))
    assert set(Holder(store, ["task", "strange"]).claim_ids(10, {"new": 10})) == set(jobs)


def test_jobs_in_other_states_or_there_already_stay(store: Store, holder: Holder) -> None:
    done, failed, strange, running = add_many(store, 4)
    leases = [each.lease for each in holder.claim(4)]
    holder.settle(Complete(leases[0]), Fail(leases[1], BOOM), Quarantine(leases[2], BOOM))
    there, waits = add(store, queue="new"), add(store)
    before = store.events(there)
    jobs = [done, failed, strange, running, there, waits, new_id()]
    assert store.requeue(jobs, "new") == 1
    assert [get(store, job).queue for job in jobs[:6]] == ["default"] * 4 + ["new"] * 2
    assert store.events(there) == before
    assert state(store, running) is State.RUNNING
    assert store.requeue(jobs, "new") == 0


def test_deadlines_go_along(store: Store, clock: FakeClock) -> None:
    job = add(store, expires_at=clock.wall() + SECOND)
    store.requeue([job], "new")
    clock.advance(timedelta(seconds=1))
    assert store.promote().lapsed == 1
    assert (state(store, job), get(store, job).queue) == (State.CANCELLED, "new")


def test_job_with_a_turn_keeps_it(store: Store, holder: Holder) -> None:
    first, second = keyed(store, 2)
    store.requeue([first], "new")
    assert states(store, [first, second]) == [State.READY, State.BLOCKED]
    assert holder.claim_ids() == [first]


def test_limits_of_the_new_queue_count(store: Store, holder: Holder) -> None:
    jobs = add_many(store, 3)
    store.limit_queue("new", QueueRules(concurrency=1))
    store.requeue(jobs, "new")
    assert len(holder.claim()) == 1
    assert view(store, "new").rules == QueueRules(concurrency=1)


def test_job_goes_to_a_drained_queue_on_a_persons_word(store: Store) -> None:
    job = add(store)
    store.drain_queue("new")
    assert store.requeue([job], "new") == 1


def test_a_thousand_at_a_time_and_the_bell_rings(store: Store) -> None:
    jobs = add_many(store, CHUNK)
    with closing(store.listen(Topic.READY)) as bell:
        bell.wait(timedelta(0))
        assert store.requeue(jobs, "new") == CHUNK
        assert bell.wait(timedelta(seconds=10))
    assert counts(store, "new") == {State.READY: CHUNK}


def test_job_named_twice_is_moved_once(store: Store) -> None:
    job = add(store)
    assert store.requeue([job, job], "new") == 1
