"""key_rate and limit_key(rate=…): how often a job of a key begins."""

from datetime import timedelta
from typing import Any

from contract.driver import BOOM, SECOND, Holder, add, get, new_job, promote_all, state, states
from contract.keys import KEY, WAITS, keyed

from limpet.domain.cause import Drained
from limpet.domain.rate import Rate
from limpet.domain.rules import Rules
from limpet.domain.state import State
from limpet.domain.transition import Complete, Release, RetryAt
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

BLOCKED, READY = State.BLOCKED, State.READY
ONE_A_SECOND = Rate(1, SECOND, 1)
SLOW = Rules(key_limit=100, key_rate=ONE_A_SECOND)
LONG = timedelta(hours=1)


def test_turns_of_a_key_come_as_often_as_its_rate_says(store: Store, clock: FakeClock) -> None:
    jobs = keyed(store, 3, rules=SLOW)
    start = clock.wall()
    assert states(store, jobs) == [READY, BLOCKED, BLOCKED]
    assert get(store, jobs[1]).blocked_by == WAITS
    answer = store.promote()
    assert (answer.ready, answer.next_due) == (0, start + SECOND)
    clock.advance(timedelta(microseconds=SECOND - 1))
    assert store.promote().ready == 0
    clock.advance(timedelta(microseconds=1))
    answer = store.promote()
    assert (answer.ready, answer.more, answer.next_due) == (1, False, start + 2 * SECOND)
    assert states(store, jobs) == [READY, READY, BLOCKED]
    clock.advance(timedelta(seconds=1))
    answer = store.promote()
    assert (answer.ready, answer.next_due) == (1, None)


def test_end_of_a_job_gives_no_turn_before_its_time(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    first, second = keyed(store, 2, rules=Rules(key_rate=ONE_A_SECOND))
    holder.settle(Complete(holder.take()))
    assert states(store, [first, second]) == [State.SUCCEEDED, BLOCKED]
    clock.advance(timedelta(seconds=1))
    store.promote()
    assert holder.claim_ids() == [second]


def test_limit_holds_when_the_rate_would_give_more(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    first, second = keyed(store, 2, rules=Rules(key_rate=ONE_A_SECOND))
    lease = holder.take()
    clock.advance(timedelta(seconds=5))
    answer = store.promote()
    assert (answer.ready, answer.more, answer.next_due) == (0, False, None)
    holder.settle(Complete(lease))
    assert states(store, [first, second]) == [State.SUCCEEDED, READY]


def test_turns_that_come_with_time_keep_the_order(store: Store, clock: FakeClock) -> None:
    holder = Holder(store, lease=LONG)
    jobs = keyed(store, 4, rules=SLOW)
    urgent = add(store, key=KEY, rules=SLOW, priority=1)
    order = []
    for _ in range(5):
        order += holder.claim_ids()
        clock.advance(timedelta(seconds=1))
        store.promote()
    assert order == [jobs[0], urgent, *jobs[1:]]


def test_newcomer_does_not_overtake_those_whose_time_has_come(
    store: Store, clock: FakeClock
) -> None:
    first, second = keyed(store, 2, rules=SLOW)
    clock.advance(timedelta(seconds=1))
    newcomer = add(store, key=KEY, rules=SLOW)
    promote_all(store)
    assert states(store, [first, second, newcomer]) == [READY, READY, BLOCKED]


def test_bursty_key_gives_many_turns_at_once(store: Store, clock: FakeClock) -> None:
    jobs = keyed(store, 5, rules=Rules(key_limit=100, key_rate=Rate(3, SECOND, 3)))
    assert states(store, jobs) == [READY] * 3 + [BLOCKED] * 2
    clock.advance(timedelta(seconds=1))
    assert store.promote().ready == 2


def test_job_that_keeps_its_turn_begins_again_without_asking_the_rate(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    first, _ = keyed(store, 2, rules=SLOW)
    holder.settle(Release(holder.take(), Drained()))
    assert holder.claim_ids() == [first]


def test_job_that_asks_again_is_counted_again(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store, key=KEY, rules=SLOW)
    holder.settle(RetryAt(holder.take(), clock.wall() + SECOND // 2, BOOM))
    clock.advance(timedelta(milliseconds=500))
    store.promote()
    assert state(store, job) is BLOCKED
    clock.advance(timedelta(milliseconds=500))
    store.promote()
    assert state(store, job) is READY


def test_rate_set_at_run_time_counts_for_all_jobs_of_the_key(
    store: Store, clock: FakeClock
) -> None:
    fields: dict[str, Any] = {"rules": Rules(key_limit=100)}
    store.limit_key(KEY, None, ONE_A_SECOND)
    jobs = keyed(store, 3, **fields)
    assert states(store, jobs) == [READY, BLOCKED, BLOCKED]
    store.limit_key(KEY, None)
    assert states(store, jobs) == [READY, READY, READY]


def test_rate_set_at_run_time_stands_instead_of_that_of_the_jobs(
    store: Store, clock: FakeClock
) -> None:
    jobs = keyed(store, 4, rules=SLOW)
    store.limit_key(KEY, None, Rate(1_000, SECOND, 100))
    promote_all(store)
    clock.advance(timedelta(seconds=1))
    promote_all(store)
    assert states(store, jobs) == [READY] * 4


def test_keys_have_their_rates_apart(store: Store, clock: FakeClock) -> None:
    keyed(store, 2, rules=SLOW)
    others = [new_job(key=f"other:{n}", rules=SLOW) for n in range(3)]
    assert [each.state for each in store.enqueue(others)] == [READY] * 3


def test_many_keys_whose_time_comes_together_are_all_served(store: Store, clock: FakeClock) -> None:
    jobs = [new_job(key=f"k{n % 50}", rules=SLOW) for n in range(100)]
    store.enqueue(jobs)
    clock.advance(timedelta(seconds=1))
    ready = 0
    while True:
        answer = store.promote()
        ready += answer.ready
        if not answer.more:
            break
    assert (ready, answer.next_due) == (50, None)


def test_rate_counts_from_the_last_that_began_for_who_comes_when_nobody_waits(
    store: Store, clock: FakeClock
) -> None:
    keyed(store, 2, rules=SLOW)
    clock.advance(timedelta(seconds=1))
    assert store.promote().ready == 1
    clock.advance(timedelta(milliseconds=500))
    (late,) = keyed(store, 1, rules=SLOW)
    assert state(store, late) is BLOCKED
    clock.advance(timedelta(milliseconds=500))
    assert store.promote().ready == 1


def test_rate_counts_for_jobs_that_become_due_together(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    soon = clock.wall() + SECOND
    jobs = keyed(store, 3, rules=SLOW, scheduled_for=soon)
    clock.advance(timedelta(seconds=1))
    store.promote()
    assert states(store, jobs) == [READY, BLOCKED, BLOCKED]
    clock.advance(timedelta(seconds=1))
    store.promote()
    assert states(store, jobs) == [READY, READY, BLOCKED]


def test_rate_counts_for_jobs_that_are_opened_again_when_the_key_was_idle(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    jobs = keyed(store, 2, rules=SLOW)
    for _ in jobs:
        holder.settle(Complete(holder.take()))
        clock.advance(timedelta(seconds=2))
        store.prune({})
        store.promote()
    for job in jobs:
        store.retry(job, 1)
    assert states(store, jobs) == [READY, BLOCKED]
