"""key: what gives the turn of a key to the next job, and what keeps it."""

from collections.abc import Callable
from datetime import timedelta

from contract.driver import BOOM, KILLED, MINUTE, SECOND, Holder, add, get, state, states
from contract.keys import KEY, WAITS, keyed

from limpet.domain.cause import Drained
from limpet.domain.lease import Lease
from limpet.domain.rules import Rules
from limpet.domain.state import State
from limpet.domain.transition import (
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
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

BLOCKED, READY, RUNNING = State.BLOCKED, State.READY, State.RUNNING
STRICT = Rules(key_strict=True)


# -- what gives the turn back


def test_every_end_of_an_attempt_gives_the_turn_to_the_next(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    at = clock.wall() + MINUTE
    jobs = keyed(store, 7)
    ends: list[Callable[[Lease], Settlement]] = [
        Complete,
        lambda lease: Fail(lease, BOOM),
        lambda lease: Quarantine(lease, BOOM),
        lambda lease: RetryAt(lease, at, BOOM),
        lambda lease: SnoozeUntil(lease, at),
        Cancel,
    ]
    for job, end in zip(jobs, ends, strict=False):
        lease = holder.take()
        assert lease.job == job
        assert holder.settle(end(lease)) == ()
    assert state(store, jobs[-1]) is READY


def test_job_at_a_cap_of_losses_gives_its_turn_back(store: Store, holder: Holder) -> None:
    first, second = keyed(store, 2)
    for _ in range(3):
        lease = holder.take(suspects=1)
        assert lease.job == first
        holder.settle(Orphan(lease, KILLED, begun=True, alone=True))
    assert states(store, [first, second]) == [State.FAILED, READY]


def test_job_cancelled_while_it_was_ready_gives_its_turn_back(store: Store, holder: Holder) -> None:
    first, second, third = keyed(store, 3)
    store.cancel(first)
    assert states(store, [second, third]) == [READY, BLOCKED]
    assert holder.claim_ids() == [second]


def test_job_cancelled_while_it_waited_for_its_key_leaves_the_line(
    store: Store, holder: Holder
) -> None:
    first, second, third = keyed(store, 3)
    assert store.cancel(second) is State.CANCELLED
    assert get(store, second).blocked_by is None
    assert states(store, [first, third]) == [READY, BLOCKED]
    holder.settle(Complete(holder.take()))
    assert holder.claim_ids() == [third]


def test_running_job_that_is_to_be_cancelled_keeps_its_turn_until_it_has_ended(
    store: Store, holder: Holder
) -> None:
    first, second = keyed(store, 2)
    lease = holder.take()
    store.cancel(first)
    assert state(store, second) is BLOCKED
    holder.settle(Cancel(lease))
    assert state(store, second) is READY


def test_jobs_that_lapse_give_their_turn_back_and_leave_the_line(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    soon = clock.wall() + SECOND
    first, second = keyed(store, 2, expires_at=soon)
    late = add(store, key=KEY, deadline_at=soon)
    last = add(store, key=KEY)
    clock.advance(timedelta(seconds=1))
    assert store.promote().lapsed == 3
    assert states(store, [first, second, late, last]) == [
        State.CANCELLED,
        State.CANCELLED,
        State.FAILED,
        READY,
    ]
    assert holder.claim_ids() == [last]


def test_job_whose_task_nobody_knows_gives_its_turn_back_and_asks_again(
    store: Store, holder: Holder
) -> None:
    strange = add(store, "strange", key=KEY)
    second, third = keyed(store, 2)
    # Whose turn it is becomes free in the claim that finds out, so the next is there by then.
    claimed = holder.claim_ids() + holder.claim_ids()
    assert claimed == [second]
    assert get(store, strange).blocked_by == "needs task strange"
    knowing = Holder(store, ["strange"])
    kept = get(store, strange)
    assert (kept.state, kept.blocked_by) == (BLOCKED, WAITS)
    holder.settle(Complete(holder.store.held(holder.id)[0]))
    assert states(store, [strange, third]) == [READY, BLOCKED]
    assert knowing.claim_ids() == [strange]


def test_repaired_job_waits_for_its_key(store: Store, holder: Holder) -> None:
    first, second = keyed(store, 2)
    holder.settle(Quarantine(holder.take(), BOOM))
    lease = holder.take()
    assert store.repair(first, "{}", 1, ()) is BLOCKED
    assert get(store, first).blocked_by == WAITS
    holder.settle(Complete(lease))
    assert states(store, [first, second]) == [READY, State.SUCCEEDED]


# -- backoff


def test_job_in_backoff_frees_its_key_and_asks_again_when_due(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    first, second = keyed(store, 2)
    holder.settle(RetryAt(holder.take(), clock.wall() + SECOND, BOOM))
    lease = holder.take()
    assert lease.job == second
    clock.advance(timedelta(seconds=1))
    promoted = store.promote()
    assert (promoted.ready, promoted.more, promoted.next_due) == (0, False, None)
    kept = get(store, first)
    assert (kept.state, kept.blocked_by) == (BLOCKED, WAITS)
    holder.settle(Complete(lease))
    assert holder.take().job == first


def test_strict_job_in_backoff_keeps_its_turn(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    first, second = keyed(store, 2, rules=STRICT)
    for end in (
        lambda lease: RetryAt(lease, clock.wall() + SECOND, BOOM),
        lambda lease: SnoozeUntil(lease, clock.wall() + SECOND),
    ):
        lease = holder.take()
        assert lease.job == first
        holder.settle(end(lease))
        assert states(store, [first, second]) == [State.SCHEDULED, BLOCKED]
        clock.advance(timedelta(seconds=1))
        assert store.promote().ready == 1
        assert states(store, [first, second]) == [READY, BLOCKED]
    holder.settle(Complete(holder.take()))
    assert state(store, second) is READY


def test_strict_job_that_is_cancelled_or_lapses_in_backoff_gives_its_turn_back(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    now = clock.wall()
    first, second = keyed(store, 2, rules=STRICT, deadline_at=now + 2 * MINUTE)
    third = add(store, key=KEY)
    holder.settle(RetryAt(holder.take(), now + MINUTE, BOOM))
    store.cancel(first)
    assert state(store, second) is READY
    holder.settle(RetryAt(holder.take(), now + MINUTE, BOOM))
    assert state(store, third) is BLOCKED
    clock.advance(timedelta(minutes=2))
    store.promote()
    assert states(store, [first, second, third]) == [State.CANCELLED, State.FAILED, READY]


def test_strict_job_whose_retry_would_come_too_late_gives_its_turn_back(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    first, second = keyed(store, 2, rules=STRICT, deadline_at=clock.wall() + SECOND)
    holder.settle(RetryAt(holder.take(), clock.wall() + MINUTE, BOOM))
    assert states(store, [first, second]) == [State.FAILED, READY]


def test_strict_job_that_was_cancelled_meanwhile_gives_its_turn_back(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    first, second = keyed(store, 2, rules=STRICT)
    lease = holder.take()
    store.cancel(first)
    holder.settle(RetryAt(lease, clock.wall() + MINUTE, BOOM))
    assert states(store, [first, second]) == [State.CANCELLED, READY]


def test_strict_job_that_was_never_tried_holds_nothing_while_scheduled(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    add(store, key=KEY, rules=STRICT, scheduled_for=clock.wall() + SECOND)
    now = add(store, key=KEY, rules=STRICT)
    assert holder.claim_ids() == [now]


# -- what keeps the turn


def test_released_job_comes_first_in_its_key(store: Store, holder: Holder) -> None:
    first, second = keyed(store, 2)
    urgent = add(store, key=KEY, priority=9)
    holder.settle(Release(holder.take(), Drained()))
    assert states(store, [first, second, urgent]) == [READY, BLOCKED, BLOCKED]
    holder.release(holder.take(), cause=Drained())
    assert states(store, [first, second, urgent]) == [READY, BLOCKED, BLOCKED]
    assert holder.claim_ids() == [first]


def test_orphaned_job_comes_first_in_its_key(store: Store, holder: Holder) -> None:
    first, second = keyed(store, 2)
    urgent = add(store, key=KEY, priority=9)
    holder.settle(Orphan(holder.take(), KILLED, begun=True, alone=False))
    assert states(store, [first, second, urgent]) == [READY, BLOCKED, BLOCKED]
    assert holder.claim_ids(suspects=1) == [first]


def test_recovered_job_comes_first_in_its_key(store: Store, holder: Holder) -> None:
    first, second = keyed(store, 2)
    urgent = add(store, key=KEY, priority=9)
    dying = Holder(store)
    dying.take(begin=True)
    dying.die()
    assert states(store, [first, second, urgent]) == [RUNNING, BLOCKED, BLOCKED]
    store.recover(dying.id)
    assert states(store, [first, second, urgent]) == [READY, BLOCKED, BLOCKED]
    assert holder.claim_ids() == [first]


def test_job_released_or_recovered_to_be_cancelled_gives_its_turn_back(
    store: Store, holder: Holder
) -> None:
    first, second, third = keyed(store, 3)
    lease = holder.take()
    store.cancel(first)
    holder.release(lease, cause=Drained())
    assert states(store, [first, second]) == [State.CANCELLED, READY]
    dying = Holder(store)
    dying.take()
    store.cancel(second)
    dying.vanish()
    assert states(store, [second, third]) == [State.CANCELLED, READY]


def test_late_holder_gives_no_turn_back(store: Store, holder: Holder) -> None:
    first, second = keyed(store, 2)
    dying = Holder(store)
    lease = dying.take()
    dying.vanish()
    assert [each.answer for each in dying.settle(Complete(lease))] == ["lost"]
    assert states(store, [first, second]) == [READY, BLOCKED]


def test_repeat_of_a_settlement_gives_one_turn_only(store: Store, holder: Holder) -> None:
    jobs = keyed(store, 3)
    lease = holder.take()
    holder.settle(Complete(lease))
    assert [each.answer for each in holder.settle(Complete(lease))] == ["already"]
    assert states(store, jobs) == [State.SUCCEEDED, READY, BLOCKED]
