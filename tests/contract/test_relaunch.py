"""relaunch_at: a failed job gets another chance by itself."""

from datetime import timedelta

import pytest
from contract.driver import (
    BOOM,
    MINUTE,
    SECOND,
    Holder,
    add,
    add_many,
    counts,
    get,
    history,
    promote_all,
    state,
    states,
    told,
    total,
)
from contract.families import KEEP, flow
from contract.keys import KEY, WAITS, keyed

from limpet.domain.event import EventName
from limpet.domain.job import Counters
from limpet.domain.queue import REPEAT_WINDOW
from limpet.domain.state import FINAL, State
from limpet.domain.transition import Complete, Fail
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock

FAILED, READY = State.FAILED, State.READY


@pytest.fixture
def failed(store: Store, holder: Holder, clock: FakeClock) -> str:
    """A job that failed and is to be launched again in a minute."""
    job = add(store)
    holder.settle(Fail(holder.take(), BOOM, clock.wall() + MINUTE))
    return job


def test_failed_job_comes_back_in_a_new_round_at_its_time(
    store: Store, failed: str, clock: FakeClock
) -> None:
    at = clock.wall() + MINUTE
    kept = get(store, failed)
    assert (kept.state, kept.relaunch_at, kept.round) == (FAILED, at, 1)
    assert store.promote().next_due == at
    clock.advance(timedelta(microseconds=MINUTE - 1))
    assert store.promote().ready == 0
    assert state(store, failed) is FAILED
    clock.advance(timedelta(microseconds=1))
    answer = store.promote()
    assert (answer.ready, answer.more, answer.next_due) == (1, False, None)
    kept = get(store, failed)
    assert (kept.state, kept.round, kept.counters) == (READY, 2, Counters())
    assert (kept.relaunch_at, kept.error, kept.finished_at) == (None, None, None)
    assert kept.ready_at == clock.wall()
    event = history(store, failed)[-1]
    assert (event.event, event.at) == (EventName.RELAUNCHED, clock.wall())
    assert EventName.REOPENED not in told(store, failed)
    assert total(store, "reopen") == 1
    (claimed,) = Holder(store).claim()
    assert (claimed.round, claimed.lease.token, claimed.attempt) == (2, 2, 1)


def test_job_that_fails_without_a_time_stays_failed(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store)
    holder.settle(Fail(holder.take(), BOOM))
    assert get(store, job).relaunch_at is None
    clock.advance(timedelta(days=1))
    assert store.promote().next_due is None
    assert state(store, job) is FAILED


def test_it_can_be_launched_again_and_again(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store, lease=timedelta(days=1))
    for round_ in (1, 2, 3):
        (claimed,) = holder.claim()
        assert claimed.round == round_
        holder.settle(Fail(claimed.lease, BOOM, clock.wall() + SECOND))
        clock.advance(timedelta(seconds=1))
        store.promote()
    assert told(store, job).count(EventName.RELAUNCHED) == 3


def test_cancelled_it_stays_failed(store: Store, failed: str, clock: FakeClock) -> None:
    assert store.cancel(failed, "not again") is FAILED
    kept = get(store, failed)
    assert (kept.state, kept.relaunch_at, kept.error) == (FAILED, None, BOOM)
    assert store.promote().next_due is None
    clock.advance(timedelta(minutes=1))
    assert store.promote().ready == 0
    assert state(store, failed) is FAILED


def test_person_who_was_quicker_opens_the_only_new_round(
    store: Store, failed: str, clock: FakeClock
) -> None:
    assert store.retry(failed, 1) == 2
    assert get(store, failed).relaunch_at is None
    clock.advance(timedelta(minutes=1))
    answer = store.promote()
    assert (answer.ready, answer.next_due) == (0, None)
    assert (state(store, failed), get(store, failed).round) == (READY, 2)


def test_person_who_was_slower_gets_the_round_that_was_opened(
    store: Store, failed: str, clock: FakeClock
) -> None:
    clock.advance(timedelta(minutes=1))
    store.promote()
    assert store.retry(failed, 1) == 2
    assert get(store, failed).round == 2


def test_repeat_of_the_settlement_changes_nothing(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store)
    lease = holder.take()
    at = clock.wall() + SECOND
    holder.settle(Fail(lease, BOOM, at))
    store.cancel(job)
    assert [each.answer for each in holder.settle(Fail(lease, BOOM, at))] == ["already"]
    assert get(store, job).relaunch_at is None


def test_job_that_was_to_be_cancelled_is_not_launched_again(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store)
    lease = holder.take()
    store.cancel(job)
    holder.settle(Fail(lease, BOOM, clock.wall() + SECOND))
    assert (state(store, job), get(store, job).relaunch_at) == (FAILED, None)


def test_it_waits_for_its_key(store: Store, holder: Holder, clock: FakeClock) -> None:
    first, second = keyed(store, 2)
    holder.settle(Fail(holder.take(), BOOM, clock.wall() + SECOND))
    lease = holder.take()
    clock.advance(timedelta(seconds=1))
    assert store.promote().ready == 0
    kept = get(store, first)
    assert (kept.state, kept.round, kept.blocked_by, kept.key) == (State.BLOCKED, 2, WAITS, KEY)
    holder.settle(Complete(lease))
    assert states(store, [first, second]) == [READY, State.SUCCEEDED]


def test_failed_child_counts_when_it_fails_not_when_it_fails_again(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    top, (first, _) = flow(store, 2, KEEP)
    holder.settle(Fail(holder.take(), BOOM, clock.wall() + SECOND))
    assert get(store, top).pending == 1
    clock.advance(timedelta(seconds=1))
    promote_all(store)
    assert state(store, first) is READY
    assert get(store, top).pending == 1


def test_many_are_launched_again_a_thousand_at_a_time(store: Store, clock: FakeClock) -> None:
    for number in (CHUNK, 5):
        add_many(store, number)
    holder = Holder(store, lease=timedelta(days=1))
    while claimed := holder.claim(500):
        holder.settle(*(Fail(each.lease, BOOM, clock.wall() + SECOND) for each in claimed))
    clock.advance(timedelta(seconds=1))
    first, second = store.promote(), store.promote()
    assert (first.ready, first.more) == (CHUNK, True)
    assert (second.ready, second.more) == (5, False)
    assert counts(store) == {READY: CHUNK + 5}


def test_job_that_was_pruned_is_not_launched_again(
    store: Store, failed: str, clock: FakeClock
) -> None:
    clock.advance(REPEAT_WINDOW + timedelta(seconds=1))
    assert store.prune(dict.fromkeys(FINAL, timedelta())).jobs == 1
    answer = store.promote()
    assert (answer.ready, answer.next_due) == (0, None)
    assert store.job(failed) is None
