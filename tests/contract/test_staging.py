"""stage, commit: many jobs come into being at one moment, and are written out by promote."""

from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from itertools import pairwise

import pytest
from contract.driver import (
    BOOM,
    LEASE,
    SECOND,
    Holder,
    add,
    counts,
    get,
    new_id,
    new_job,
    promote_all,
    state,
    told,
)
from contract.families import KEEP, child, ids, parent

from limpet.domain.cause import ChildFailed
from limpet.domain.errors import FlowIncomplete, LeaseLost, QueueFull
from limpet.domain.event import EventName
from limpet.domain.job import JobFilter, NewJob
from limpet.domain.queue import REPEAT_WINDOW
from limpet.domain.state import FINAL, State
from limpet.domain.transition import Complete, Fail
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock

BLOCKED, READY = State.BLOCKED, State.READY


def some(number: int) -> list[NewJob]:
    return [new_job() for _ in range(number)]


def staged(store: Store, *parts: Sequence[NewJob]) -> str:
    """A flow in that many parts, not committed."""
    flow = new_id()
    for place, jobs in enumerate(parts):
        store.stage(flow, place, jobs)
    return flow


def committed(store: Store, *parts: Sequence[NewJob]) -> str:
    flow = staged(store, *parts)
    assert store.commit(flow, len(parts)) is True
    return flow


def all_states(store: Store, jobs: Sequence[str]) -> dict[State, int]:
    """How many are in which state; all are there."""
    found: dict[State, int] = {}
    for at in range(0, len(jobs), CHUNK):
        part = jobs[at : at + CHUNK]
        states = store.states(part)
        assert len(states) == len(part)
        for each in states.values():
            found[each] = found.get(each, 0) + 1
    return found


# -- before the commit


def test_nobody_sees_what_is_staged(store: Store, holder: Holder) -> None:
    top = parent(2)
    jobs = [top, child(top), child(top)]
    staged(store, jobs)
    assert store.promote() == store.promote()
    assert store.job(top.id) is None
    assert store.states(ids(jobs)) == {}
    assert store.jobs(JobFilter()).jobs == ()
    assert store.children(top.id).jobs == ()
    assert [view for view in store.queues() if any(view.counts.values())] == []
    assert holder.claim() == ()


def test_what_is_not_committed_in_time_is_pruned(store: Store, clock: FakeClock) -> None:
    flow = staged(store, some(2))
    clock.advance(REPEAT_WINDOW - timedelta(seconds=1))
    store.prune({})
    late = staged(store, some(2), some(2))
    assert store.commit(flow, 1) is True
    clock.advance(REPEAT_WINDOW + timedelta(seconds=1))
    store.prune({})
    with pytest.raises(FlowIncomplete):
        store.commit(late, 2)
    promote_all(store)
    assert counts(store) == {READY: 2}


def test_committed_flow_is_not_pruned_before_it_is_written_out(
    store: Store, clock: FakeClock
) -> None:
    committed(store, some(3))
    clock.advance(REPEAT_WINDOW + timedelta(days=99))
    store.prune(dict.fromkeys(FINAL, timedelta()))
    promote_all(store)
    assert counts(store) == {READY: 3}


def test_part_that_is_staged_again_takes_its_place(store: Store, holder: Holder) -> None:
    old, new, last = some(2), some(3), some(1)
    flow = staged(store, old, last)
    store.stage(flow, 0, new)
    store.stage(flow, 0, new)
    assert store.commit(flow, 2) is True
    promote_all(store)
    assert store.states(ids(old)) == {}
    assert holder.claim_ids() == ids([*new, *last])


@pytest.mark.parametrize("places", [(), (1,), (0, 2)])
def test_flow_of_which_a_part_is_missing_is_refused(store: Store, places: tuple[int, ...]) -> None:
    flow = new_id()
    for place in places:
        store.stage(flow, place, some(1))
    with pytest.raises(FlowIncomplete):
        store.commit(flow, 3 if places == (0, 2) else 2)
    promote_all(store)
    assert counts(store) == {}
    for place in range(3):
        store.stage(flow, place, some(1))
    assert store.commit(flow, 3) is True
    promote_all(store)
    assert counts(store) == {READY: 3}


# -- the commit


def test_all_jobs_of_a_committed_flow_come_into_being(store: Store, holder: Holder) -> None:
    top = parent(2)
    below = [child(top), child(top, queue="other")]
    committed(store, [top], below)
    promote_all(store)
    assert (state(store, top.id), get(store, top.id).pending) == (BLOCKED, 2)
    holder.settle(*(Complete(each.lease) for each in holder.claim()))
    assert holder.claim_ids() == [top.id]


def test_repeat_of_a_commit_is_answered_and_changes_nothing(store: Store, holder: Holder) -> None:
    flow = committed(store, some(2))
    assert store.commit(flow, 1) is False
    promote_all(store)
    assert store.commit(flow, 1) is False
    promote_all(store)
    assert counts(store) == {READY: 2}
    holder.settle(*(Complete(each.lease) for each in holder.claim()))
    assert store.commit(flow, 1) is False
    promote_all(store)
    assert counts(store) == {State.SUCCEEDED: 2}


def test_flows_are_apart_from_each_other(store: Store, holder: Holder) -> None:
    first, second, third = some(1), some(1), some(1)
    staged(store, first)
    flows = [staged(store, second), staged(store, third)]
    assert store.commit(flows[1], 1) is True
    promote_all(store)
    assert holder.claim_ids() == ids(third)
    assert store.commit(flows[0], 1) is True
    promote_all(store)
    assert holder.claim_ids() == ids(second)


def test_parts_are_written_out_in_the_order_of_their_places(store: Store, holder: Holder) -> None:
    parts = [some(2) for _ in range(12)]
    flow = new_id()
    for place in (11, 0, *range(10, 0, -1)):
        store.stage(flow, place, parts[place])
    assert store.commit(flow, 12) is True
    promote_all(store)
    assert holder.claim_ids(100) == ids([job for part in parts for job in part])


def test_flow_is_written_out_a_thousand_at_a_time(store: Store) -> None:
    parts = [some(CHUNK), some(CHUNK), some(10)]
    jobs = ids([job for part in parts for job in part])
    committed(store, *parts)
    written = []
    while True:
        answer = store.promote()
        written.append(sum(counts(store).values()))
        if not answer.more:
            break
    assert all(after - before <= CHUNK for before, after in pairwise([0, *written]))
    assert written[-1] == 2 * CHUNK + 10
    assert all_states(store, jobs) == {READY: len(jobs)}
    assert store.promote().more is False


def test_small_flows_are_written_out_together(store: Store) -> None:
    for _ in range(5):
        committed(store, some(1), some(1))
    assert promote_all(store) <= 11
    assert counts(store) == {READY: 10}


def test_scheduled_jobs_of_a_flow_stay_scheduled(store: Store, clock: FakeClock) -> None:
    later = new_job(scheduled_for=clock.wall() + SECOND)
    committed(store, [later, new_job(key="k"), new_job(key="k")])
    promote_all(store)
    assert counts(store) == {State.SCHEDULED: 1, READY: 1, BLOCKED: 1}
    clock.advance(timedelta(seconds=1))
    assert store.promote().ready == 1
    assert state(store, later.id) is READY


def test_bell_rings_when_a_flow_is_written_out(store: Store) -> None:
    committed(store, some(1))
    with closing(store.listen(Topic.READY)) as bell:
        bell.wait(timedelta(0))
        promote_all(store)
        assert bell.wait(timedelta(seconds=10))


def test_job_of_a_flow_that_was_handed_in_before_stays_as_it_is(
    store: Store, holder: Holder
) -> None:
    (job,) = some(1)
    store.enqueue([job])
    holder.settle(Complete(holder.take(), "1"))
    committed(store, [job, new_job()])
    promote_all(store)
    assert counts(store) == {State.SUCCEEDED: 1, READY: 1}


# -- while a part is written and another is not


def test_child_that_is_done_before_its_parent_is_written_out_counts(
    store: Store, holder: Holder
) -> None:
    top = parent(CHUNK + 1)
    first, last = [child(top) for _ in range(CHUNK)], child(top)
    committed(store, first, [last, top])
    assert store.promote().more
    early = holder.claim(500)
    assert early
    holder.settle(*(Complete(each.lease) for each in early))
    promote_all(store)
    assert get(store, top.id).pending == CHUNK + 1 - len(early)
    while claimed := holder.claim(500, {"default": 500}):
        assert state(store, top.id) is BLOCKED
        holder.settle(*(Complete(each.lease) for each in claimed))
    assert (state(store, top.id), get(store, top.id).pending) == (READY, 0)


def test_all_children_done_before_their_parent_is_written_out_let_it_run(
    store: Store, holder: Holder
) -> None:
    top = parent(CHUNK)
    committed(store, [child(top) for _ in range(CHUNK)], [top])
    while store.job(top.id) is None:
        holder.settle(*(Complete(each.lease) for each in holder.claim(CHUNK, {"default": CHUNK})))
        store.promote()
    promote_all(store)
    while claimed := holder.claim(CHUNK, {"default": CHUNK}):
        holder.settle(*(Complete(each.lease) for each in claimed))
    assert (state(store, top.id), get(store, top.id).pending) == (READY, 0)


# -- caps


def test_flow_that_is_over_a_cap_is_refused_and_nothing_of_it_is_left(store: Store) -> None:
    for _ in range(2):
        add(store)
    parts = some(2), [*some(1), new_job(queue="other")]
    flow = staged(store, *parts)
    with pytest.raises(QueueFull, match=r"'default' has no room for 3 more: 2 jobs") as refused:
        store.commit(flow, 2, caps={"default": 4, "other": 1})
    assert (refused.value.queue, refused.value.waiting, refused.value.cap) == ("default", 2, 4)
    promote_all(store)
    assert counts(store) == {READY: 2}
    with pytest.raises(FlowIncomplete):
        store.commit(flow, 2)
    for place, jobs in enumerate(parts):
        store.stage(flow, place, jobs)
    assert store.commit(flow, 2, caps={"default": 5, "other": 1}) is True
    assert store.commit(flow, 2, caps={"default": 5, "other": 1}) is False
    promote_all(store)
    assert counts(store) == {READY: 5}


def test_what_is_committed_takes_its_place_before_it_is_written_out(store: Store) -> None:
    committed(store, some(2), some(1))
    staged(store, some(7))  # takes none
    for _ in range(2):
        with pytest.raises(QueueFull, match="3 jobs are waiting"):
            store.commit(staged(store, some(3)), 1, caps={"default": 5})
        (over,) = store.enqueue([new_job()], caps={"default": 3})
        assert (over.outcome, over.waiting) == ("full", 3)
        promote_all(store)
    assert store.commit(staged(store, some(2)), 1, caps={"default": 5}) is True
    (other,) = store.enqueue([new_job(queue="other")], caps={"other": 1})
    assert other.outcome == "new"


def test_flow_that_is_partly_written_out_is_counted_once(store: Store) -> None:
    committed(store, some(CHUNK), some(5))
    assert store.promote().more
    assert counts(store) == {READY: CHUNK}
    (over,) = store.enqueue([new_job()], caps={"default": CHUNK + 5})
    assert (over.outcome, over.waiting) == ("full", CHUNK + 5)
    promote_all(store)
    (over,) = store.enqueue([new_job()], caps={"default": CHUNK + 5})
    assert (over.outcome, over.waiting) == ("full", CHUNK + 5)


def test_part_that_is_staged_again_is_counted_as_it_is_now(store: Store) -> None:
    flow = staged(store, some(9))
    store.stage(flow, 0, some(2))
    assert store.commit(flow, 1, caps={"default": 2}) is True


def test_cap_counts_for_the_flow_of_an_attempt_too(store: Store) -> None:
    add(store)
    fence = Holder(store).take(begin=True)
    with pytest.raises(QueueFull):
        store.commit(staged(store, some(2)), 1, fence, caps={"default": 1})
    assert store.commit(staged(store, some(2)), 1, fence, caps={"default": 2}) is True


def test_attempt_commits_a_flow_while_its_lease_holds(store: Store) -> None:
    add(store)
    fence = Holder(store).take()
    jobs = some(2)
    flow = staged(store, jobs)
    assert [store.commit(flow, 1, fence) for _ in range(2)] == [True, False]
    promote_all(store)
    assert set(store.states(ids(jobs)).values()) == {READY}


def test_attempt_whose_lease_is_lost_commits_nothing(store: Store, clock: FakeClock) -> None:
    job, holder = add(store), Holder(store)
    fence = holder.take()
    jobs = some(2)
    flow = staged(store, jobs)
    clock.advance(LEASE)
    with pytest.raises(LeaseLost):
        store.commit(flow, 1, fence)
    promote_all(store)
    assert store.states(ids(jobs)) == {}
    assert EventName.LEASE_LOST in told(store, job)
    assert store.commit(flow, 1) is True


def test_child_that_fails_before_its_parent_is_written_out_fails_it(
    store: Store, holder: Holder
) -> None:
    top = parent(CHUNK + 500)
    first, last = [child(top) for _ in range(CHUNK)], [child(top) for _ in range(500)]
    committed(store, first, [*last, top])
    assert store.promote().more
    lease = holder.take_of("default")
    holder.settle(Fail(lease, BOOM))
    promote_all(store)
    kept = get(store, top.id)
    assert (kept.state, kept.error) == (State.FAILED, ChildFailed(lease.job, "failed"))
    assert all_states(store, ids([*first, *last])) == {
        State.FAILED: 1,
        State.CANCELLED: CHUNK + 499,
    }


def test_child_that_may_fail_before_its_parent_is_written_out_counts(
    store: Store, holder: Holder
) -> None:
    top = parent(CHUNK)
    committed(store, [child(top, KEEP) for _ in range(CHUNK)], [top])
    store.promote()
    holder.settle(Fail(holder.take_of("default"), BOOM))
    promote_all(store)
    assert (state(store, top.id), get(store, top.id).pending) == (BLOCKED, CHUNK - 1)


def test_parent_that_is_cancelled_before_its_children_are_written_out_takes_them_along(
    store: Store, holder: Holder
) -> None:
    top = parent(CHUNK + 500)
    below = [child(top) for _ in range(CHUNK + 499)]
    nested = parent(1, top)
    deep = child(nested)
    committed(store, [top, *below[:500]], [*below[500:], nested], [deep])
    assert store.promote().more
    assert store.cancel(top.id) is State.CANCELLED
    promote_all(store)
    assert holder.claim() == ()
    assert all_states(store, ids([*below, nested, deep])) == {State.CANCELLED: CHUNK + 501}
