"""unique: of one task and one `unique`, no second job while the first one holds it."""

from datetime import timedelta
from typing import Any

import pytest
from contract.driver import (
    BOOM,
    MINUTE,
    SECOND,
    Holder,
    add,
    counts,
    get,
    history,
    new_job,
    state,
    states,
    total,
)

from limpet.domain.cause import Replaced
from limpet.domain.errors import MoveRefused
from limpet.domain.event import EventName
from limpet.domain.job import NewJob
from limpet.domain.queue import REPEAT_WINDOW
from limpet.domain.rules import Rules, UniqueUntil
from limpet.domain.state import FINAL, State
from limpet.domain.transition import Cancel, Complete, Fail, Quarantine, RetryAt
from limpet.storage.contract.answers import Receipt
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

READY, RUNNING = State.READY, State.RUNNING
STARTED = Rules(unique_until=UniqueUntil.STARTED)
FINISHED = Rules(unique_until=UniqueUntil.FINISHED)
FOR_A_MINUTE = Rules(unique_until=UniqueUntil.TIME, unique_for=MINUTE)
DEBOUNCE = Rules(unique_until=UniqueUntil.STARTED, replaces=True)


def only(rules: Rules | None = None, **fields: Any) -> NewJob:
    """A job that is to be the only one."""
    return new_job(**{"unique": "welcome:42", "rules": rules, **fields})


def enqueue(store: Store, job: NewJob) -> Receipt:
    (receipt,) = store.enqueue([job])
    return receipt


def test_second_job_is_answered_with_the_first(store: Store) -> None:
    first, second = only(), only()
    assert enqueue(store, first) == Receipt(first.id, "new", READY)
    answer = enqueue(store, second)
    assert (answer.job, answer.outcome, answer.state) == (first.id, "duplicate", READY)
    assert store.job(second.id) is None
    assert counts(store) == {READY: 1}
    assert total(store, "enqueue") == 1


def test_second_job_of_the_same_call_is_a_duplicate(store: Store) -> None:
    first, second, plain = only(), only(), new_job()
    receipts = store.enqueue([first, second, plain])
    assert [(each.job, each.outcome) for each in receipts] == [
        (first.id, "new"),
        (first.id, "duplicate"),
        (plain.id, "new"),
    ]
    assert counts(store) == {READY: 2}


def test_unique_is_within_a_task(store: Store) -> None:
    jobs = [only(), only(task="other"), only(unique="welcome:43"), only(unique=None)]
    assert [each.outcome for each in store.enqueue(jobs)] == ["new"] * 4


def test_unique_is_one_for_all_queues(store: Store) -> None:
    enqueue(store, only(queue="a"))
    assert enqueue(store, only(queue="b")).outcome == "duplicate"


def test_repeat_of_the_holder_itself_is_answered_already(store: Store, holder: Holder) -> None:
    job = only()
    enqueue(store, job)
    assert enqueue(store, job) == Receipt(job.id, "already", READY)
    holder.settle(Complete(holder.take()))
    other = only()
    assert enqueue(store, other).outcome == "new"
    assert enqueue(store, job) == Receipt(job.id, "already", State.SUCCEEDED)


def test_duplicate_does_not_count_against_the_cap_of_its_queue(store: Store) -> None:
    first = only()
    enqueue(store, first)
    (answer,) = store.enqueue([only()], caps={"default": 1})
    assert (answer.job, answer.outcome) == (first.id, "duplicate")


def test_duplicate_takes_no_turn_of_its_key(store: Store, holder: Holder) -> None:
    enqueue(store, only(key="k"))
    enqueue(store, only(key="k"))
    other = add(store, key="k")
    holder.settle(Complete(holder.take()))
    assert holder.claim_ids() == [other]


# -- for how long


def test_by_default_it_is_held_until_it_is_finished(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = only()
    enqueue(store, job)
    assert enqueue(store, only()).state is READY
    lease = holder.take()
    assert enqueue(store, only()).state is RUNNING
    holder.settle(RetryAt(lease, clock.wall() + SECOND, BOOM))
    assert enqueue(store, only()).state is State.SCHEDULED
    clock.advance(timedelta(seconds=1))
    store.promote()
    holder.settle(Quarantine(holder.take(), BOOM))
    assert enqueue(store, only()).state is State.QUARANTINED
    assert store.repair(job.id, "{}", 1, ()) is READY
    holder.settle(Complete(holder.take()))
    assert enqueue(store, only()).outcome == "new"


def test_every_final_state_frees_it(store: Store, holder: Holder, clock: FakeClock) -> None:
    for end in (Complete, lambda lease: Fail(lease, BOOM), Cancel):
        assert enqueue(store, only()).outcome == "new"
        assert enqueue(store, only()).outcome == "duplicate"
        holder.settle(end(holder.take()))
    cancelled = only()
    assert enqueue(store, cancelled).outcome == "new"
    store.cancel(cancelled.id)
    assert enqueue(store, only(expires_at=clock.wall() + SECOND)).outcome == "new"
    clock.advance(timedelta(seconds=1))
    store.promote()
    assert enqueue(store, only()).outcome == "new"


def test_until_started_it_is_held_while_it_waits(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    first = only(STARTED, scheduled_for=clock.wall() + SECOND)
    assert enqueue(store, first).state is State.SCHEDULED
    assert enqueue(store, only(STARTED)).job == first.id
    clock.advance(timedelta(seconds=1))
    store.promote()
    assert enqueue(store, only(STARTED)).job == first.id
    assert holder.take().job == first.id
    second = only(STARTED)
    assert enqueue(store, second).outcome == "new"
    assert enqueue(store, only(STARTED)).job == second.id


def test_job_that_waits_for_its_key_holds_its_unique(store: Store, holder: Holder) -> None:
    add(store, key="k")
    waits = only(STARTED, key="k")
    assert enqueue(store, waits).state is State.BLOCKED
    assert enqueue(store, only(STARTED)).job == waits.id


def test_for_a_time_it_is_held_whatever_becomes_of_it(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    first = only(FOR_A_MINUTE)
    enqueue(store, first)
    holder.settle(Complete(holder.take()))
    clock.advance(timedelta(microseconds=MINUTE - 1))
    answer = enqueue(store, only(FOR_A_MINUTE))
    assert (answer.job, answer.outcome, answer.state) == (first.id, "duplicate", State.SUCCEEDED)
    clock.advance(timedelta(microseconds=1))
    assert enqueue(store, only(FOR_A_MINUTE)).outcome == "new"


def test_for_a_time_it_is_free_after_it_though_the_job_still_waits(
    store: Store, clock: FakeClock
) -> None:
    first, second = only(FOR_A_MINUTE), only(FOR_A_MINUTE)
    enqueue(store, first)
    clock.advance(timedelta(minutes=1))
    assert enqueue(store, second).outcome == "new"
    assert enqueue(store, only(FOR_A_MINUTE)).job == second.id
    assert states(store, [first.id, second.id]) == [READY, READY]


def test_what_the_holder_says_counts_not_what_the_newcomer_says(
    store: Store, holder: Holder
) -> None:
    enqueue(store, only(FINISHED))
    holder.take()
    assert enqueue(store, only(STARTED)).outcome == "duplicate"
    enqueue(store, only(STARTED, unique="other"))
    holder.take()
    assert enqueue(store, only(FINISHED, unique="other")).outcome == "new"


def test_pruning_an_older_one_frees_nothing_of_the_newer(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    enqueue(store, only())
    holder.settle(Complete(holder.take()))
    newer = only()
    enqueue(store, newer)
    clock.advance(REPEAT_WINDOW + timedelta(seconds=1))
    assert store.prune(dict.fromkeys(FINAL, timedelta())).jobs == 1
    assert enqueue(store, only()).job == newer.id


# -- replace


def test_newer_job_takes_the_place_of_the_one_that_waits(store: Store, clock: FakeClock) -> None:
    at = clock.wall() + MINUTE
    first, second = only(DEBOUNCE, scheduled_for=at), only(DEBOUNCE, scheduled_for=at + 1)
    enqueue(store, first)
    assert enqueue(store, second) == Receipt(second.id, "new", State.SCHEDULED)
    kept = get(store, first.id)
    assert (kept.state, kept.error) == (State.CANCELLED, Replaced(second.id))
    assert kept.finished_at == clock.wall()
    told = history(store, first.id)[-1]
    assert (told.event, told.cause) == (EventName.CANCELLED, Replaced(second.id))
    assert counts(store) == {State.SCHEDULED: 1, State.CANCELLED: 1}


def test_of_many_that_replace_each_other_one_runs(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    jobs = [only(DEBOUNCE, args=f'{{"n": {n}}}') for n in range(10)]
    for job in jobs[:5]:
        enqueue(store, job)
    store.enqueue(jobs[5:])
    (claimed,) = holder.claim()
    assert (claimed.lease.job, claimed.args) == (jobs[-1].id, '{"n": 9}')


def test_job_that_runs_is_left_alone_by_the_one_that_replaces(store: Store, holder: Holder) -> None:
    first, second = only(DEBOUNCE), only(DEBOUNCE)
    enqueue(store, first)
    lease = holder.take()
    assert enqueue(store, second).outcome == "new"
    kept = get(store, first.id)
    assert (kept.state, kept.cancel_requested_at) == (RUNNING, None)
    assert holder.settle(Complete(lease)) == ()
    assert enqueue(store, only(STARTED)).job == second.id


def test_one_that_replaces_takes_over_also_where_the_holder_is_finished(
    store: Store, holder: Holder
) -> None:
    first, second = only(FOR_A_MINUTE), only(DEBOUNCE)
    enqueue(store, first)
    holder.settle(Complete(holder.take()))
    assert enqueue(store, second).outcome == "new"
    assert state(store, first.id) is State.SUCCEEDED


def test_replaced_job_gives_its_turn_back(store: Store, holder: Holder) -> None:
    first, second = only(DEBOUNCE, key="k"), only(DEBOUNCE)
    enqueue(store, first)
    waits = add(store, key="k")
    enqueue(store, second)
    assert states(store, [first.id, waits]) == [State.CANCELLED, READY]


# -- a new round


def test_reopened_job_is_refused_where_another_holds_its_unique(
    store: Store, holder: Holder
) -> None:
    first, second = only(), only()
    enqueue(store, first)
    holder.settle(Fail(holder.take(), BOOM))
    enqueue(store, second)
    before = get(store, first.id)
    with pytest.raises(MoveRefused):
        store.retry(first.id, 1)
    assert get(store, first.id) == before
    holder.settle(Complete(holder.take()))
    assert store.retry(first.id, 1) == 2


def test_reopened_job_holds_its_unique_again(store: Store, holder: Holder) -> None:
    first, second = only(), only()
    for job in (first, second):
        enqueue(store, job)
        holder.settle(Fail(holder.take(), BOOM))
    assert store.retry(first.id, 1) == 2
    answer = enqueue(store, only())
    assert (answer.job, answer.outcome) == (first.id, "duplicate")
    with pytest.raises(MoveRefused):
        store.retry(second.id, 1)


def test_repeat_of_a_reopening_is_answered_though_another_holds_its_unique(
    store: Store, holder: Holder
) -> None:
    job = only()
    enqueue(store, job)
    holder.settle(Fail(holder.take(), BOOM))
    assert store.retry(job.id, 1) == 2
    holder.settle(Complete(holder.take()))
    enqueue(store, only())
    assert store.retry(job.id, 1) == 2


def test_relaunch_is_dropped_where_another_holds_the_unique(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    first, second = only(), only()
    enqueue(store, first)
    holder.settle(Fail(holder.take(), BOOM, relaunch_at=clock.wall() + SECOND))
    enqueue(store, second)
    clock.advance(timedelta(seconds=1))
    assert store.promote().ready == 0
    kept = get(store, first.id)
    assert (kept.state, kept.round, kept.relaunch_at) == (State.FAILED, 1, None)
    assert store.promote().next_due is None
