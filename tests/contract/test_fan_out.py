"""FanOut: a running job hands in children, waits for them and runs again."""

from dataclasses import replace
from datetime import timedelta

import pytest
from contract.driver import (
    BOOM,
    SECOND,
    Holder,
    add,
    counts,
    get,
    new_id,
    promote_all,
    state,
    states,
    told,
    total,
)
from contract.families import KEEP, WAITS, child, flow, ids, parent

from limpet.domain.cause import ChildFailed, Drained, Raised
from limpet.domain.event import EventName
from limpet.domain.job import Counters, NewJob
from limpet.domain.lease import Lease
from limpet.domain.queue import REPEAT_WINDOW
from limpet.domain.rules import Rules
from limpet.domain.state import FINAL, State
from limpet.domain.transition import AwaitChildren, Cancel, Complete, Fail, RetryAt
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock

BLOCKED, READY = State.BLOCKED, State.READY
CANCELLED, FAILED = State.CANCELLED, State.FAILED


def fan_out(
    store: Store, lease: Lease, number: int, rules: Rules | None = None
) -> tuple[AwaitChildren, list[NewJob]]:
    """Stage children of the job that runs; what its holder then says, and the children."""
    below = [child(lease.job, rules, queue="below") for _ in range(number)]
    name = new_id()
    parts = [below[at : at + CHUNK] for at in range(0, number, CHUNK)]
    for place, part in enumerate(parts):
        store.stage(name, place, part)
    return AwaitChildren(lease, name, len(parts), number), below


@pytest.fixture
def lease(store: Store, holder: Holder) -> Lease:
    """Of a running job that has begun."""
    add(store)
    return holder.take(begin=True)


def test_job_waits_for_its_new_children_and_runs_again(
    store: Store, holder: Holder, lease: Lease
) -> None:
    said, below = fan_out(store, lease, 2)
    answer = holder.exchange(said)
    assert (answer.rejected, answer.unfinished) == ((), True)
    kept = get(store, lease.job)
    assert (kept.state, kept.pending, kept.blocked_by) == (BLOCKED, 2, WAITS)
    assert (kept.begun, holder.store.held(holder.id)) == (False, ())
    assert told(store, lease.job)[-1] is EventName.FANNED_OUT
    assert total(store, "fan_out") == 1
    promote_all(store)
    assert holder.claim_ids() == ids(below)
    assert state(store, lease.job) is BLOCKED
    holder.settle(*map(Complete, holder.store.held(holder.id)))
    (again,) = holder.claim()
    assert again.lease == Lease(lease.job, holder.id, lease.token + 1)
    assert (again.round, again.attempt, again.counters) == (1, 1, Counters())
    assert ids(store.children(lease.job).jobs) == ids(below)
    assert holder.settle(Complete(again.lease)) == ()


def test_fan_out_keeps_the_counters(
    store: Store, holder: Holder, lease: Lease, clock: FakeClock
) -> None:
    holder.settle(RetryAt(lease, clock.wall(), BOOM))
    store.promote()
    dying = Holder(store)
    dying.take(begin=True)
    dying.vanish()
    again = holder.take(begin=True)
    said, _ = fan_out(store, again, 1)
    holder.settle(said)
    promote_all(store)
    assert get(store, lease.job).counters == Counters(failures=1, orphans=1)
    holder.settle(Complete(holder.take()))
    (last,) = holder.claim()
    assert (last.counters, last.attempt) == (Counters(failures=1, orphans=1), 3)


def test_repeat_is_answered_already_and_makes_no_second_children(
    store: Store, holder: Holder, lease: Lease
) -> None:
    said, _ = fan_out(store, lease, 2)
    holder.settle(said)
    for _ in range(2):
        assert [each.answer for each in holder.settle(said)] == ["already"]
        promote_all(store)
        assert counts(store, "below") == {READY: 2}
    assert get(store, lease.job).pending == 2


def test_late_holder_hands_in_no_children(store: Store, holder: Holder, lease: Lease) -> None:
    said, below = fan_out(store, lease, 2)
    holder.vanish()
    assert [each.answer for each in holder.settle(said)] == ["lost"]
    promote_all(store)
    assert store.states(ids(below)) == {}
    assert (state(store, lease.job), get(store, lease.job).pending) == (READY, 0)


def test_job_that_is_to_be_cancelled_is_and_its_children_are_dropped(
    store: Store, holder: Holder, lease: Lease
) -> None:
    said, below = fan_out(store, lease, 2)
    store.cancel(lease.job)
    assert holder.settle(said) == ()
    promote_all(store)
    assert state(store, lease.job) is CANCELLED
    assert store.states(ids(below)) == {}


def test_job_can_fan_out_again(store: Store, holder: Holder, lease: Lease) -> None:
    everyone = []
    for number in (1, 3):
        said, below = fan_out(store, lease, number)
        everyone += ids(below)
        assert holder.settle(said) == ()
        promote_all(store)
        assert get(store, lease.job).pending == number
        holder.settle(*(Complete(each.lease) for each in holder.claim()))
        lease = holder.take()
    assert ids(store.children(lease.job).jobs) == everyone
    assert holder.settle(Complete(lease)) == ()


def test_fan_out_gives_the_turn_of_its_key_back_and_asks_again(
    store: Store, holder: Holder
) -> None:
    first, second = add(store, key="k"), add(store, key="k")
    said, _ = fan_out(store, holder.take(), 1)
    holder.settle(said)
    assert states(store, [first, second]) == [BLOCKED, READY]
    other = holder.take()
    promote_all(store)
    holder.settle(Complete(holder.take_of("below")))
    assert get(store, first).blocked_by == "waits for its turn of key k"
    holder.settle(Complete(other))
    assert state(store, first) is READY


def test_child_that_fans_out_is_still_waited_for(store: Store, holder: Holder) -> None:
    top, (middle,) = flow(store, 1)
    said, (below,) = fan_out(store, holder.take(), 1)
    holder.settle(said)
    promote_all(store)
    assert states(store, [top, middle, below.id]) == [BLOCKED, BLOCKED, READY]
    for job in (below.id, middle, top):
        lease = holder.take()
        assert lease.job == job
        holder.settle(Complete(lease))


def test_failed_child_of_a_fan_out_fails_the_job(
    store: Store, holder: Holder, lease: Lease
) -> None:
    said, below = fan_out(store, lease, 3)
    holder.settle(said)
    promote_all(store)
    failed = holder.take()
    holder.settle(Fail(failed, BOOM))
    kept = get(store, lease.job)
    assert (kept.state, kept.error) == (FAILED, ChildFailed(failed.job, "failed"))
    assert states(store, ids(below)) == [FAILED, CANCELLED, CANCELLED]


def test_failed_child_that_is_kept_lets_the_job_run_again(
    store: Store, holder: Holder, lease: Lease
) -> None:
    said, _ = fan_out(store, lease, 2, KEEP)
    holder.settle(said)
    promote_all(store)
    holder.settle(*(Fail(each.lease, BOOM) for each in holder.claim()))
    assert holder.take().job == lease.job


def test_cancelling_the_job_stops_children_that_are_not_even_written_out(
    store: Store, holder: Holder, lease: Lease
) -> None:
    said, below = fan_out(store, lease, CHUNK + 200)
    holder.settle(said)
    store.promote()
    assert store.cancel(lease.job) is CANCELLED
    promote_all(store)
    assert counts(store, "below") == {CANCELLED: len(below)}
    assert holder.claim() == ()


def test_running_children_of_a_fan_out_are_stopped_by_request(
    store: Store, holder: Holder, lease: Lease
) -> None:
    said, _ = fan_out(store, lease, 2)
    holder.settle(said)
    promote_all(store)
    running = holder.take()
    store.cancel(lease.job)
    assert holder.renew().cancels == (running,)
    holder.settle(Cancel(running))
    assert counts(store, "below") == {CANCELLED: 2}


def test_nothing_of_the_old_attempt_is_left_with_its_session(
    store: Store, holder: Holder, lease: Lease
) -> None:
    said, _ = fan_out(store, lease, 1)
    holder.settle(said)
    assert [each.answer for each in holder.release(lease, cause=Drained())] == ["lost"]
    holder.die()
    assert store.recover(holder.id).jobs == 0
    assert get(store, lease.job).counters == Counters()


def test_children_of_a_fan_out_are_kept_until_the_job_is_finished(
    store: Store, holder: Holder, lease: Lease, clock: FakeClock
) -> None:
    said, _ = fan_out(store, lease, 1)
    holder.settle(said)
    promote_all(store)
    holder.settle(Complete(holder.take()))
    clock.advance(REPEAT_WINDOW + timedelta(days=99))
    assert store.prune(dict.fromkeys(FINAL, timedelta())).jobs == 0


def test_fan_out_may_hand_in_families(store: Store, holder: Holder, lease: Lease) -> None:
    top = parent(1, queue="below")._replace(parent=lease.job)
    below = child(top, queue="below")
    name = new_id()
    store.stage(name, 0, [below])
    store.stage(name, 1, [top])
    assert holder.settle(AwaitChildren(lease, name, 2, 1)) == ()
    promote_all(store)
    for job in (below.id, top.id, lease.job):
        again = holder.take()
        assert again.job == job
        holder.settle(Complete(again))


def test_deadline_still_counts_while_it_waits_for_its_children(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store, deadline_at=clock.wall() + SECOND, expires_at=clock.wall() + SECOND)
    said, (below,) = fan_out(store, holder.take(begin=True), 1)
    holder.settle(said)
    promote_all(store)
    clock.advance(timedelta(seconds=1))
    promote_all(store)
    assert states(store, [job, below.id]) == [FAILED, CANCELLED]


def test_job_whose_children_are_not_all_there_fails(
    store: Store, holder: Holder, lease: Lease
) -> None:
    said, below = fan_out(store, lease, 2)
    said = replace(said, chunks=2)
    assert holder.settle(said) == ()
    kept = get(store, lease.job)
    assert (kept.state, type(kept.error)) == (FAILED, Raised)
    assert "cannot be committed" in str(kept.error)
    promote_all(store)
    assert store.states(ids(below)) == {}
    assert [each.answer for each in holder.settle(said)] == ["already"]
