"""A child that fails, a parent that is gone: how far it goes up, and what is stopped below."""

from datetime import timedelta

import pytest
from contract.driver import (
    BOOM,
    SECOND,
    Holder,
    add,
    get,
    history,
    promote_all,
    state,
    states,
    told,
    total,
)
from contract.families import FAIL, KEEP, SKIP, child, flow, ids, parent

from limpet.domain.cause import ChildFailed, Drained, ParentGone
from limpet.domain.event import EventName
from limpet.domain.job import NewJob
from limpet.domain.rules import Rules
from limpet.domain.state import State
from limpet.domain.transition import Cancel, Complete, Fail, Quarantine
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock

BLOCKED, READY, RUNNING = State.BLOCKED, State.READY, State.RUNNING
CANCELLED, FAILED, SUCCEEDED = State.CANCELLED, State.FAILED, State.SUCCEEDED


# -- when a child fails


@pytest.mark.parametrize("how", ["fail", "cancel", "cancel_running", "expire"])
def test_parent_fails_at_once_when_a_child_without_which_it_is_not_to_run_does(
    store: Store, holder: Holder, clock: FakeClock, how: str
) -> None:
    top = parent(3)
    below = [child(top, FAIL, expires_at=clock.wall() + SECOND if how == "expire" and n == 0
                   else None) for n in range(3)]  # fmt: skip
    store.enqueue([top, *below])
    lost = below[0].id
    match how:
        case "fail":
            holder.settle(Fail(holder.take(), BOOM))
        case "cancel":
            store.cancel(lost)
        case "cancel_running":
            lease = holder.take()
            store.cancel(lost)
            assert state(store, top.id) is BLOCKED
            holder.settle(Cancel(lease))
        case "expire":
            clock.advance(timedelta(seconds=1))
            store.promote()
    kept = get(store, top.id)
    cause = ChildFailed(lost, "failed" if how == "fail" else "cancelled")
    assert (kept.state, kept.error, kept.blocked_by) == (FAILED, cause, None)
    assert (kept.finished_at, kept.counters.failures, kept.pending) == (clock.wall(), 0, 0)
    assert (history(store, top.id)[-1].event, history(store, top.id)[-1].cause) == (
        EventName.FAILED,
        cause,
    )
    assert total(store, "abandon", "parents") == 1
    assert states(store, ids(below)[1:]) == [CANCELLED, CANCELLED]
    assert get(store, below[1].id).error == ParentGone(top.id)
    assert told(store, below[1].id)[-1] is EventName.CANCELLED


@pytest.mark.parametrize("rules", [SKIP, KEEP], ids=["skip", "keep"])
def test_parent_runs_though_a_child_failed_that_it_can_do_without(
    store: Store, holder: Holder, rules: Rules
) -> None:
    top, below = flow(store, 3, rules)
    store.cancel(below[2])
    assert get(store, top).pending == 2
    holder.settle(Fail(holder.take(), BOOM))
    holder.settle(Complete(holder.take()))
    assert states(store, [top, *below]) == [READY, FAILED, SUCCEEDED, CANCELLED]


def test_failure_goes_up_as_far_as_each_level_says(store: Store, holder: Holder) -> None:
    top = parent(2)
    middle = parent(1, top)
    side = child(top)
    below = child(middle)
    store.enqueue([top, middle, side, below])
    assert store.cancel(below.id) is CANCELLED
    assert states(store, [middle.id, top.id, side.id]) == [FAILED, FAILED, CANCELLED]
    assert get(store, middle.id).error == ChildFailed(below.id, "cancelled")
    assert get(store, top.id).error == ChildFailed(middle.id, "failed")


def test_failure_stops_at_a_level_that_is_left_out(store: Store, holder: Holder) -> None:
    top = parent(2)
    middle = parent(1, top, rules=SKIP)
    side, below = child(top), child(middle)
    store.enqueue([top, middle, side, below])
    store.cancel(below.id)
    assert states(store, [middle.id, top.id, side.id]) == [FAILED, BLOCKED, READY]
    holder.settle(Complete(holder.take()))
    assert state(store, top.id) is READY


def test_two_children_that_fail_in_one_step_fail_the_parent_once(
    store: Store, holder: Holder
) -> None:
    top, below = flow(store, 2)
    leases = [each.lease for each in holder.claim()]
    assert holder.settle(*(Fail(lease, BOOM) for lease in leases)) == ()
    assert states(store, [top, *below]) == [FAILED, FAILED, FAILED]
    assert told(store, top).count(EventName.FAILED) == 1
    assert total(store, "abandon", "parents") == 1


def test_parent_that_failed_can_run_in_a_new_round_without_its_children(
    store: Store, holder: Holder
) -> None:
    top, (first, second) = flow(store, 2)
    leases = [each.lease for each in holder.claim()]
    holder.settle(Fail(leases[0], BOOM))
    assert store.retry(top, 1) == 2
    assert (state(store, top), get(store, top).pending) == (READY, 0)
    holder.settle(Complete(leases[1]))
    assert (state(store, top), get(store, top).pending) == (READY, 0)
    assert states(store, [first, second]) == [FAILED, SUCCEEDED]


# -- when a parent is gone


def three_levels(store: Store) -> tuple[NewJob, list[NewJob], list[NewJob]]:
    """A parent over two parents over two children each, in queues of their own."""
    top = parent(2, queue="top")
    middle = [parent(2, top, queue="middle") for _ in range(2)]
    below = [child(each, queue="below") for each in middle for _ in range(2)]
    store.enqueue([top, *middle, *below])
    return top, middle, below


def test_cancelled_parent_takes_three_levels_along_the_running_ones_by_request(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    top, middle, below = three_levels(store)
    lease = holder.take()
    assert lease.job == below[0].id
    assert store.cancel(top.id, "enough") is CANCELLED
    promote_all(store)
    assert states(store, ids(middle)) == [CANCELLED, CANCELLED]
    assert states(store, ids(below)) == [RUNNING, CANCELLED, CANCELLED, CANCELLED]
    assert get(store, middle[0].id).error == ParentGone(top.id)
    assert isinstance(get(store, below[1].id).error, ParentGone)
    assert get(store, below[0].id).cancel_requested_at == clock.wall()
    assert told(store, below[0].id)[-1] is EventName.CANCEL_REQUESTED
    assert holder.renew().cancels == (lease,)
    holder.settle(Cancel(lease))
    kept = get(store, below[0].id)
    assert kept.state is CANCELLED
    assert isinstance(kept.error, ParentGone)


def test_failed_child_stops_what_runs_in_other_branches(store: Store, holder: Holder) -> None:
    top, middle, below = three_levels(store)
    leases = {each.lease.job: each.lease for each in holder.claim()}
    holder.settle(Fail(leases[below[0].id], BOOM))
    promote_all(store)
    assert states(store, [top.id, *ids(middle)]) == [FAILED, FAILED, CANCELLED]
    assert set(holder.renew().cancels) == {leases[job.id] for job in below[1:]}


def test_running_descendant_that_finishes_first_has_succeeded(store: Store, holder: Holder) -> None:
    top, (only,) = flow(store, 1)
    lease = holder.take()
    store.cancel(top)
    assert holder.settle(Complete(lease, "1")) == ()
    assert states(store, [top, only]) == [CANCELLED, SUCCEEDED]


def test_running_descendant_that_is_recovered_is_cancelled(store: Store) -> None:
    top, below = flow(store, 2)
    dying = Holder(store)
    dying.take(begin=True)
    released = dying.take()
    store.cancel(top)
    dying.release(released, cause=Drained())
    dying.vanish()
    assert states(store, below) == [CANCELLED, CANCELLED]


@pytest.mark.parametrize("limit", ["expires_at", "deadline_at"])
def test_parent_that_lapses_while_it_waits_takes_its_descendants_along(
    store: Store, holder: Holder, clock: FakeClock, limit: str
) -> None:
    top, below = flow(store, 2, None, **{limit: clock.wall() + SECOND})
    clock.advance(timedelta(seconds=1))
    promote_all(store)
    assert state(store, top) is (CANCELLED if limit == "expires_at" else FAILED)
    assert states(store, below) == [CANCELLED, CANCELLED]


def test_descendants_that_are_scheduled_blocked_or_quarantined_are_cancelled_too(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    top = parent(4)
    below = [
        child(top),
        child(top, scheduled_for=clock.wall() + SECOND),
        child(top, key="k"),
        child(top, key="k"),
    ]
    store.enqueue([top, *below])
    holder.settle(Quarantine(holder.take(), BOOM))
    assert states(store, ids(below)) == [State.QUARANTINED, State.SCHEDULED, READY, BLOCKED]
    waits = add(store, key="k")
    store.cancel(top.id)
    assert set(states(store, ids(below))) == {CANCELLED}
    assert state(store, waits) is READY


def test_failed_descendant_that_was_to_be_launched_again_is_not(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    top, (first, second) = flow(store, 2, KEEP)
    holder.settle(Fail(holder.take(), BOOM, clock.wall() + SECOND))
    store.cancel(top)
    clock.advance(timedelta(seconds=1))
    promote_all(store)
    assert states(store, [first, second]) == [FAILED, CANCELLED]
    kept = get(store, first)
    assert (kept.round, kept.relaunch_at) == (1, None)


def test_finished_descendants_stay_as_they_are(store: Store, holder: Holder) -> None:
    top, (first, second) = flow(store, 2)
    holder.settle(Complete(holder.take(), "1"))
    before = get(store, first)
    store.cancel(top)
    assert get(store, first) == before
    assert state(store, second) is CANCELLED


def test_parent_that_is_ready_or_runs_has_no_descendants_left_to_stop(
    store: Store, holder: Holder
) -> None:
    top, (only,) = flow(store, 1)
    holder.settle(Complete(holder.take()))
    assert store.retry(only, 1) == 2
    lease = holder.take_of("parents")
    store.cancel(top)
    holder.settle(Cancel(lease))
    promote_all(store)
    assert states(store, [top, only]) == [CANCELLED, READY]


def test_more_descendants_than_a_step_can_take_are_cancelled_by_promote(store: Store) -> None:
    number = 2 * CHUNK + 50
    top = parent(number)
    store.enqueue([top])
    below = [child(top) for _ in range(number)]
    for at in range(0, number, CHUNK):
        store.enqueue(below[at : at + CHUNK])
    assert store.cancel(top.id) is CANCELLED
    assert 1 <= promote_all(store) <= 5
    assert set(store.states(ids(below)[:CHUNK]).values()) == {CANCELLED}
    assert set(store.states(ids(below)[CHUNK : 2 * CHUNK]).values()) == {CANCELLED}
    assert set(store.states(ids(below)[2 * CHUNK :]).values()) == {CANCELLED}
    assert store.promote().more is False
