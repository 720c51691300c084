"""parent and children: a job runs when its children have."""

from datetime import timedelta

import pytest
from contract.driver import (
    BOOM,
    SECOND,
    Holder,
    add,
    get,
    new_id,
    new_job,
    state,
    states,
)
from contract.families import KEEP, WAITS, child, flow, ids, parent

from limpet.domain.errors import UnknownParent
from limpet.domain.queue import REPEAT_WINDOW
from limpet.domain.state import FINAL, State
from limpet.domain.transition import Complete, Fail, Quarantine, RetryAt
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

BLOCKED, READY, RUNNING = State.BLOCKED, State.READY, State.RUNNING
CANCELLED, FAILED, SUCCEEDED = State.CANCELLED, State.FAILED, State.SUCCEEDED
AT_ONCE = dict.fromkeys(FINAL, timedelta())


# -- the countdown


def test_parent_waits_until_its_last_child_has_succeeded(store: Store, holder: Holder) -> None:
    top, below = parent(3), []
    below = [child(top) for _ in range(3)]
    receipts = store.enqueue([top, *below])
    assert [each.state for each in receipts] == [BLOCKED, READY, READY, READY]
    for left, job in zip((3, 2, 1), below, strict=True):
        kept = get(store, top.id)
        assert (kept.state, kept.pending, kept.blocked_by) == (BLOCKED, left, WAITS)
        lease = holder.take()
        assert lease.job == job.id
        assert holder.settle(Complete(lease, "1")) == ()
    kept = get(store, top.id)
    assert (kept.state, kept.pending, kept.blocked_by) == (READY, 0, None)
    assert holder.claim_ids() == [top.id]


def test_parent_is_claimed_in_the_step_that_ends_its_last_child(
    store: Store, holder: Holder
) -> None:
    top, _ = flow(store, 2)
    leases = [each.lease for each in holder.claim()]
    answer = holder.exchange(*map(Complete, leases), want=holder.want())
    assert [each.lease.job for each in answer.claimed] == [top]


def test_children_may_be_handed_in_before_their_parent_in_one_call(
    store: Store, holder: Holder
) -> None:
    top = parent(2)
    store.enqueue([child(top), top, child(top)])
    assert get(store, top.id).pending == 2
    holder.settle(*(Complete(each.lease) for each in holder.claim()))
    assert state(store, top.id) is READY


def test_children_may_be_handed_in_later(store: Store, holder: Holder) -> None:
    top = parent(2)
    store.enqueue([top])
    for _ in range(2):
        assert state(store, top.id) is BLOCKED
        store.enqueue([child(top)])
        holder.settle(Complete(holder.take()))
    assert state(store, top.id) is READY


def test_child_that_is_tried_again_is_still_waited_for(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    top, _ = flow(store, 1)
    holder.settle(RetryAt(holder.take(), clock.wall() + SECOND, BOOM))
    assert get(store, top).pending == 1
    clock.advance(timedelta(seconds=1))
    store.promote()
    holder.settle(Quarantine(holder.take(), BOOM))
    assert get(store, top).pending == 1


def test_repeat_of_a_settlement_counts_once(store: Store, holder: Holder) -> None:
    top, _ = flow(store, 3)
    lease = holder.take()
    for _ in range(2):
        holder.settle(Complete(lease))
    assert get(store, top).pending == 2


def test_new_round_of_a_child_does_not_count_again(store: Store, holder: Holder) -> None:
    top, (first, _, _) = flow(store, 3, KEEP)
    holder.settle(Fail(holder.take(), BOOM))
    assert store.retry(first, 1) == 2
    assert get(store, top).pending == 2
    lease = next(each.lease for each in holder.claim() if each.lease.job == first)
    holder.settle(Complete(lease))
    assert get(store, top).pending == 2


def test_parent_asks_for_its_key_when_its_children_are_done(store: Store, holder: Holder) -> None:
    top, below = flow(store, 1, key="k")
    other = add(store, key="k", queue="others")
    assert states(store, [top, *below, other]) == [BLOCKED, READY, READY]
    held = holder.take_of("others")
    holder.settle(Complete(holder.take()))
    assert (state(store, top), get(store, top).blocked_by) == (
        BLOCKED,
        "waits for its turn of key k",
    )
    holder.settle(Complete(held))
    assert state(store, top) is READY


def test_parent_whose_task_is_not_known_is_still_waiting_for_children(
    store: Store, holder: Holder
) -> None:
    top, _ = flow(store, 1, task="strange")
    Holder(store, ["strange"])
    assert (state(store, top), get(store, top).blocked_by) == (BLOCKED, WAITS)
    holder.settle(Complete(holder.take()))
    assert state(store, top) is READY


def test_nested_flow_across_queues_runs_from_below(store: Store, holder: Holder) -> None:
    top = parent(2, queue="a")
    middle = [parent(2, top, queue="b"), parent(1, top, queue="c")]
    below = [child(middle[0], queue="d"), child(middle[0], queue="e"), child(middle[1], queue="a")]
    store.enqueue([top, *middle, *below])
    order = []
    while claimed := holder.claim():
        order.append({each.lease.job for each in claimed})
        holder.settle(*(Complete(each.lease) for each in claimed))
    assert order == [set(ids(below)), set(ids(middle)), {top.id}]


def test_children_are_told_a_page_at_a_time_oldest_first(store: Store, holder: Holder) -> None:
    top, below = flow(store, 5)
    flow(store, 2)
    holder.settle(Complete(holder.take(), "[1]"))
    page = store.children(top, limit=2)
    assert ids(page.jobs) == below[:2]
    assert (page.jobs[0].state, page.jobs[0].result) == (SUCCEEDED, "[1]")
    found = list(ids(page.jobs))
    while page.cursor is not None:
        page = store.children(top, page.cursor, 2)
        found += ids(page.jobs)
    assert found == below
    assert ids(store.children(top).jobs) == below
    for nobody in (below[0], new_id()):
        assert store.children(nobody).jobs == ()
        assert store.children(nobody).cursor is None


# -- who may be a parent


def test_parent_that_is_not_there_is_refused_and_nothing_written(store: Store) -> None:
    plain = new_job()
    with pytest.raises(UnknownParent):
        store.enqueue([plain, child(new_id())])
    assert store.job(plain.id) is None


def test_parent_that_does_not_wait_for_children_is_refused(store: Store, holder: Holder) -> None:
    ready = add(store)
    top, _ = flow(store, 1)
    holder.settle(*(Complete(each.lease) for each in holder.claim()))
    gone, _ = flow(store, 1)
    store.cancel(gone)
    blocked = [add(store, key="k") for _ in range(2)][1]
    for job in (ready, top, gone, blocked):
        late = child(job)
        with pytest.raises(UnknownParent):
            store.enqueue([late])
        assert store.job(late.id) is None


@pytest.mark.parametrize("why", ["full", "draining"])
@pytest.mark.parametrize("kept_out", ["parents", "default"], ids=["parent", "child"])
def test_family_of_which_one_is_refused_is_refused_as_a_whole(
    store: Store, holder: Holder, kept_out: str, why: str
) -> None:
    """A child would run without its parent, or a parent wait for less than it was told."""
    top = parent(1)
    jobs = [top, child(top), new_job(queue="other")]
    if why == "draining":
        store.drain_queue(kept_out)
        receipts = store.enqueue(jobs)
    else:
        receipts = store.enqueue(jobs, caps={kept_out: 0})
    refused = next(place for place, job in enumerate(jobs) if job.queue == kept_out)
    assert receipts[refused].outcome == why
    assert {each.outcome for each in receipts} <= {"full", "draining"}
    assert [store.job(job.id) for job in jobs] == [None] * 3
    assert holder.claim() == ()


def test_child_of_a_parent_that_is_a_duplicate_is_refused_and_nothing_written(
    store: Store, holder: Holder
) -> None:
    store.enqueue([parent(1, unique="u")])
    again = parent(1, unique="u")
    jobs = [child(again), again, new_job()]
    with pytest.raises(UnknownParent):
        store.enqueue(jobs)
    assert [store.job(job.id) for job in jobs] == [None] * 3
    assert holder.claim() == ()


def test_repeat_of_a_child_is_answered_after_its_parent_is_done(
    store: Store, holder: Holder
) -> None:
    top = parent(1)
    only = child(top)
    store.enqueue([top, only])
    holder.settle(Complete(holder.take()))
    holder.settle(Complete(holder.take()))
    assert [each.outcome for each in store.enqueue([top, only])] == ["already", "already"]
    assert [each.outcome for each in store.enqueue([only])] == ["already"]
    assert state(store, top.id) is SUCCEEDED


def test_repeat_of_a_flow_counts_nothing_again(store: Store, holder: Holder) -> None:
    top = parent(2)
    jobs = [top, child(top), child(top)]
    store.enqueue(jobs)
    holder.settle(Complete(holder.take()))
    assert {each.outcome for each in store.enqueue(jobs)} == {"already"}
    assert get(store, top.id).pending == 1


def test_parent_does_not_wait_for_a_child_that_is_not_taken_in(
    store: Store, holder: Holder
) -> None:
    add(store, unique="u")
    top = parent(2)
    receipts = store.enqueue([top, child(top, unique="u"), child(top)])
    assert [each.outcome for each in receipts] == ["new", "duplicate", "new"]
    assert get(store, top.id).pending == 1
    holder.settle(*(Complete(each.lease) for each in holder.claim()))
    assert state(store, top.id) is READY


# -- how long they are kept


def test_children_are_kept_until_their_parent_is_finished(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    top, below = flow(store, 2)
    holder.settle(*(Complete(each.lease) for each in holder.claim()))
    clock.advance(timedelta(days=99))
    assert store.prune(AT_ONCE).jobs == 0
    assert ids(store.children(top).jobs) == below
    late = Holder(store)
    late.settle(Complete(late.take()))
    clock.advance(timedelta(seconds=1))
    assert store.prune(AT_ONCE).jobs == 3


def test_child_whose_parent_was_pruned_is_pruned_too(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    _, (only,) = flow(store, 1, KEEP)
    holder.settle(Fail(holder.take(), BOOM))
    holder.settle(Complete(holder.take()))
    clock.advance(REPEAT_WINDOW + timedelta(seconds=1))
    assert store.prune({State.SUCCEEDED: timedelta()}).jobs == 1
    assert state(store, only) is FAILED
    assert store.prune(AT_ONCE).jobs == 1
