"""Limits of a queue: how many of its jobs run at once, held back, drained."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

import pytest
from contract.driver import (
    BOOM,
    KILLED,
    MINUTE,
    SECOND,
    Holder,
    add,
    add_many,
    counts,
    get,
    new_id,
    new_job,
    promote_all,
    state,
    states,
    view,
)
from contract.families import child

from limpet.domain.cause import Drained
from limpet.domain.lease import Lease
from limpet.domain.queue import NO_QUEUE_RULES, QueueRules
from limpet.domain.rate import Rate
from limpet.domain.state import State
from limpet.domain.transition import (
    AwaitChildren,
    Cancel,
    Complete,
    Fail,
    Orphan,
    Quarantine,
    Release,
    RetryAt,
    Settlement,
    SnoozeUntil,
)
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

READY, RUNNING = State.READY, State.RUNNING
TWO = QueueRules(concurrency=2)


# -- concurrency


def test_so_many_run_at_once_in_all_sessions_together(store: Store, holder: Holder) -> None:
    jobs = add_many(store, 5)
    other = add(store, queue="other")
    store.limit_queue("default", TWO)
    assert holder.claim_ids(1) == jobs[:1]
    second = Holder(store)
    assert second.claim_ids() == [jobs[1], other]
    assert holder.claim_ids() == []
    assert counts(store) == {RUNNING: 2, READY: 3}


def test_place_that_becomes_free_is_filled_in_the_same_step(store: Store, holder: Holder) -> None:
    jobs = add_many(store, 5)
    store.limit_queue("default", TWO)
    first, second = (each.lease for each in holder.claim())
    answer = holder.exchange(Complete(first), Complete(second), want=holder.want())
    assert [each.lease.job for each in answer.claimed] == jobs[2:4]
    assert Holder(store).claim_ids() == []


def test_every_end_of_an_attempt_frees_its_place(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    add_many(store, 9)
    store.limit_queue("default", QueueRules(concurrency=1))
    later = clock.wall() + MINUTE
    ends: list[Callable[[Lease], Settlement]] = [
        Complete,
        lambda lease: Fail(lease, BOOM),
        lambda lease: RetryAt(lease, later, BOOM),
        lambda lease: SnoozeUntil(lease, later),
        lambda lease: Quarantine(lease, BOOM),
        Cancel,
        lambda lease: Release(lease, Drained()),
        lambda lease: Orphan(lease, KILLED, begun=True, alone=True),
    ]
    held = holder.take()
    for end in ends:
        assert Holder(store).claim_ids(suspects=10) == []
        assert holder.settle(end(held)) == ()
        held = holder.take(suspects=1)
    holder.release(held, cause=Drained())
    assert len(Holder(store).claim_ids(suspects=1)) == 1


def test_fan_out_frees_its_place(store: Store, holder: Holder) -> None:
    add_many(store, 2)
    store.limit_queue("default", QueueRules(concurrency=1))
    lease = holder.take()
    flow = new_id()
    store.stage(flow, 0, [child(lease.job)])
    assert Holder(store).claim_ids() == []
    holder.settle(AwaitChildren(lease, flow, 1, 1))
    assert len(holder.claim_ids()) == 1


def test_place_of_a_dead_session_is_free_once_it_is_recovered(store: Store, holder: Holder) -> None:
    jobs = add_many(store, 3)
    store.limit_queue("default", TWO)
    dying = Holder(store)
    assert dying.claim_ids() == jobs[:2]
    dying.die()
    assert holder.claim_ids() == []
    store.recover(dying.id)
    assert holder.claim_ids() == jobs[:2]
    assert holder.claim_ids() == []


def test_suspects_count_too(store: Store, holder: Holder) -> None:
    add_many(store, 4)
    holder.settle(
        *(Orphan(each.lease, KILLED, begun=True, alone=False) for each in holder.claim(4))
    )
    store.limit_queue("default", TWO)
    assert len(holder.claim(4, suspects=4)) == 2
    assert holder.claim(4, suspects=4) == ()


def test_limit_is_shared_by_the_pools_of_one_want(store: Store) -> None:
    holder = Holder(store, ["a", "b"], pools=[["a"], ["b"]])
    for task in ("a", "b", "a", "b"):
        add(store, task)
    store.limit_queue("default", QueueRules(concurrency=3))
    assert len(holder.claim(10)) == 3


def test_limit_holds_however_little_else_is_wanted(store: Store, holder: Holder) -> None:
    jobs = add_many(store, 4)
    store.limit_queue("default", QueueRules(concurrency=3))
    assert holder.claim_ids(10, {"default": 2}) == jobs[:2]
    assert holder.claim_ids(10, {"default": 2}) == jobs[2:3]


def test_whoever_ends_a_job_of_a_queue_that_is_full_rings(store: Store, holder: Holder) -> None:
    add_many(store, 2)
    store.limit_queue("default", QueueRules(concurrency=1))
    lease = holder.take()
    with closing(store.listen(Topic.READY)) as bell:
        bell.wait(timedelta(0))
        holder.settle(Complete(lease))
        assert bell.wait(timedelta(seconds=10))


# -- set at run time


def test_limit_can_be_changed_while_jobs_run(store: Store, holder: Holder) -> None:
    add_many(store, 9)
    store.limit_queue("default", TWO)
    assert len(holder.claim()) == 2
    store.limit_queue("default", QueueRules(concurrency=3))
    assert len(holder.claim()) == 1
    store.limit_queue("default", QueueRules(concurrency=1))
    assert holder.claim() == ()
    leases = store.held(holder.id)
    holder.settle(*map(Complete, leases[:2]))
    assert holder.claim() == ()
    holder.settle(Complete(leases[2]))
    assert len(holder.claim()) == 1
    store.limit_queue("default", None)
    assert len(holder.claim()) == 5


def test_jobs_that_ran_before_there_was_a_limit_count(store: Store, holder: Holder) -> None:
    add_many(store, 4)
    leases = [each.lease for each in holder.claim(3)]
    store.limit_queue("default", TWO)
    assert holder.claim() == ()
    holder.settle(Complete(leases[0]), Complete(leases[1]))
    assert len(holder.claim()) == 1


def test_limit_of_a_queue_rings(store: Store) -> None:
    add(store)
    with closing(store.listen(Topic.READY)) as bell:
        bell.wait(timedelta(0))
        store.limit_queue("default", TWO)
        assert bell.wait(timedelta(seconds=10))


def test_what_is_set_stays_above_what_is_declared(store: Store, holder: Holder) -> None:
    add_many(store, 9)
    rate = Rate(5, SECOND, 5)
    store.declare_queues({"default": QueueRules(3, rate, 7), "other": TWO})
    assert (view(store).rules, view(store).adjusted) == (QueueRules(3, rate, 7), NO_QUEUE_RULES)
    store.limit_queue("default", QueueRules(concurrency=1))
    assert view(store).rules == QueueRules(1, rate, 7)
    assert view(store).adjusted == QueueRules(concurrency=1)
    store.declare_queues({"default": QueueRules(4, None, None)})
    assert view(store).rules == QueueRules(concurrency=1)
    assert len(holder.claim()) == 1
    store.limit_queue("default", None)
    assert (view(store).rules, view(store).adjusted) == (QueueRules(4), NO_QUEUE_RULES)
    assert len(holder.claim()) == 3


def test_queue_that_is_not_declared_again_keeps_what_was(store: Store, holder: Holder) -> None:
    add_many(store, 3, queue="a")
    store.declare_queues({"a": TWO})
    store.declare_queues({"b": TWO})
    store.declare_queues({})
    assert view(store, "a").rules == TWO
    assert len(holder.claim()) == 2


def test_queue_can_be_limited_before_it_has_jobs(store: Store, holder: Holder) -> None:
    store.limit_queue("new", QueueRules(concurrency=1))
    add_many(store, 2, queue="new")
    assert view(store, "new").rules == QueueRules(concurrency=1)
    assert len(holder.claim()) == 1


# -- held back


def test_nothing_of_a_held_queue_is_claimed_before_its_time(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job, other = add(store), add(store, queue="other")
    until = clock.wall() + MINUTE
    store.hold_queue("default", until)
    assert view(store).held_until == until
    answer = holder.exchange(want=holder.want())
    assert [each.lease.job for each in answer.claimed] == [other]
    assert answer.next_at == until
    assert state(store, job) is READY
    clock.advance(timedelta(microseconds=MINUTE - 1))
    holder.renew(stepped=True)
    assert holder.claim_ids() == []
    clock.advance(timedelta(microseconds=1))
    answer = holder.exchange(want=holder.want())
    assert [each.lease.job for each in answer.claimed] == [job]
    assert answer.next_at is None
    assert view(store).held_until is None


def test_hold_can_be_taken_back(store: Store, holder: Holder, clock: FakeClock) -> None:
    job = add(store)
    store.hold_queue("default", clock.wall() + MINUTE)
    store.hold_queue("default", clock.wall() + SECOND)
    assert view(store).held_until == clock.wall() + SECOND
    store.hold_queue("default", 0)
    assert view(store).held_until is None
    assert holder.claim_ids() == [job]


def test_job_that_is_told_to_come_back_holds_its_queue_for_everybody(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    jobs = add_many(store, 3)
    at = clock.wall() + 5 * SECOND
    lease = holder.take()
    answer = holder.exchange(SnoozeUntil(lease, at, holds=True), want=holder.want())
    assert (answer.rejected, answer.claimed, answer.next_at) == ((), (), at)
    assert get(store, lease.job).state is State.SCHEDULED
    assert Holder(store).claim_ids() == []
    clock.advance(timedelta(seconds=5))
    store.promote()
    assert sorted(holder.claim_ids()) == jobs


def test_later_hold_outlasts_a_shorter_one(store: Store, holder: Holder, clock: FakeClock) -> None:
    add_many(store, 3)
    now = clock.wall()
    first, second = (each.lease for each in holder.claim(2))
    holder.settle(SnoozeUntil(first, now + 9 * SECOND, holds=True))
    holder.settle(SnoozeUntil(second, now + SECOND, holds=True))
    assert view(store).held_until == now + 9 * SECOND


def test_late_holder_holds_nothing(store: Store, clock: FakeClock) -> None:
    job = add(store)
    dying = Holder(store)
    lease = dying.take()
    dying.vanish()
    dying.settle(SnoozeUntil(lease, clock.wall() + MINUTE, holds=True))
    assert Holder(store).claim_ids() == [job]


def test_job_of_a_snooze_that_holds_nothing_comes_back_alone(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    jobs = add_many(store, 2)
    holder.settle(SnoozeUntil(holder.take(), clock.wall() + MINUTE))
    assert view(store).held_until is None
    assert holder.claim_ids() == jobs[1:]


# -- drained


def test_queue_that_is_drained_takes_in_no_new_jobs(store: Store, holder: Holder) -> None:
    job = new_job()
    store.enqueue([job])
    store.drain_queue("default")
    store.drain_queue("default")
    assert view(store).draining is True
    refused, other = new_job(), new_job(queue="other")
    receipts = store.enqueue([refused, other, job])
    assert [(each.outcome, each.state) for each in receipts] == [
        ("draining", None),
        ("new", READY),
        ("already", READY),
    ]
    assert store.job(refused.id) is None
    assert holder.claim_ids() == [job.id, other.id]
    store.drain_queue("default", False)
    assert view(store).draining is False
    assert store.enqueue([refused])[0].outcome == "new"


def test_one_job_of_a_drained_queue_keeps_all_out_where_all_or_none_are_wanted(
    store: Store,
) -> None:
    store.drain_queue("default")
    other = new_job(queue="other")
    receipts = store.enqueue([new_job(), other], all_or_none=True)
    assert receipts[0].outcome == "draining"
    assert receipts[1].outcome != "new"
    assert store.job(other.id) is None


def test_what_a_drained_queue_has_goes_on(store: Store, holder: Holder, clock: FakeClock) -> None:
    later = add(store, scheduled_for=clock.wall() + SECOND)
    first, second = add(store, key="k"), add(store, key="k")
    store.drain_queue("default")
    holder.settle(RetryAt(holder.take(), clock.wall() + SECOND, BOOM))
    holder.settle(Fail(holder.take(), BOOM))
    clock.advance(timedelta(seconds=1))
    store.promote()
    assert states(store, [later, first]) == [READY, READY]
    assert store.retry(second, 1) == 2


def test_jobs_that_run_may_hand_in_to_a_drained_queue(store: Store, holder: Holder) -> None:
    add(store)
    lease = holder.take()
    store.drain_queue("default")
    assert store.enqueue([new_job()], fence=lease)[0].outcome == "new"
    flow = new_id()
    store.stage(flow, 0, [child(lease.job)])
    assert holder.settle(AwaitChildren(lease, flow, 1, 1)) == ()
    promote_all(store)
    assert counts(store) == {READY: 2, State.BLOCKED: 1}


def test_committed_flow_is_written_out_to_a_drained_queue(store: Store) -> None:
    flow = new_id()
    store.stage(flow, 0, [new_job(), new_job()])
    assert store.commit(flow, 1)
    store.drain_queue("default")
    promote_all(store)
    assert counts(store) == {READY: 2}


def test_queue_can_be_drained_before_it_has_jobs(store: Store) -> None:
    store.drain_queue("new")
    assert store.enqueue([new_job(queue="new")])[0].outcome == "draining"


@pytest.mark.parametrize("queue", ["default", "weird:name.x-1"])
def test_paused_queue_with_limits_stays_paused(store: Store, holder: Holder, queue: str) -> None:
    add_many(store, 3, queue=queue)
    store.limit_queue(queue, TWO)
    store.pause(queue)
    assert holder.claim() == ()
    store.pause(queue, False)
    assert len(holder.claim()) == 2
