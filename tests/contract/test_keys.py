"""key: so many jobs of a key are under way at once, in order, whoever runs them."""

from contextlib import closing
from datetime import timedelta

from contract.driver import BOOM, SECOND, Holder, add, get, new_job, state, states, told
from contract.keys import KEY, WAITS, keyed

from limpet.domain.event import EventName
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

BLOCKED, READY = State.BLOCKED, State.READY


# -- one at a time, in order


def test_second_job_of_a_key_waits_for_it(store: Store, holder: Holder) -> None:
    first, second = new_job(key=KEY), new_job(key=KEY)
    assert [each.state for each in store.enqueue([first])] == [READY]
    assert [(each.outcome, each.state) for each in store.enqueue([second])] == [("new", BLOCKED)]
    kept = get(store, second.id)
    assert (kept.state, kept.blocked_by, kept.key) == (BLOCKED, WAITS, KEY)
    assert holder.claim_ids() == [first.id]
    assert holder.claim_ids() == []


def test_jobs_of_a_key_run_one_after_the_other_in_order(store: Store, holder: Holder) -> None:
    jobs = keyed(store, 5)
    assert states(store, jobs) == [READY] + [BLOCKED] * 4
    for at, job in enumerate(jobs):
        assert states(store, jobs)[at:] == [READY] + [BLOCKED] * (4 - at)
        assert get(store, job).blocked_by is None
        lease = holder.take()
        assert lease.job == job
        assert holder.claim() == ()
        assert holder.settle(Complete(lease)) == ()
    assert set(states(store, jobs)) == {State.SUCCEEDED}


def test_next_of_a_key_is_claimed_in_the_step_that_ends_the_one_before(
    store: Store, holder: Holder
) -> None:
    first, second = keyed(store, 2)
    lease = holder.take()
    assert lease.job == first
    answer = holder.exchange(Complete(lease), want=holder.want())
    assert [each.lease.job for each in answer.claimed] == [second]


def test_busy_key_does_not_hold_up_others(store: Store, holder: Holder) -> None:
    first, _, _ = keyed(store, 3)
    other, plain = add(store, key="customer:43"), add(store)
    assert holder.claim_ids() == [first, other, plain]


def test_higher_priority_comes_first_among_those_that_wait(store: Store, holder: Holder) -> None:
    first, late = keyed(store, 2)
    urgent = add(store, key=KEY, priority=5)
    assert holder.take().job == first
    assert states(store, [late, urgent]) == [BLOCKED, BLOCKED]
    for job in (urgent, late):
        holder.settle(Complete(holder.store.held(holder.id)[0]))
        assert holder.take().job == job


def test_job_that_has_its_turn_is_not_overtaken_by_a_higher_priority(
    store: Store, holder: Holder
) -> None:
    first = add(store, key=KEY)
    urgent = add(store, key=KEY, priority=100)
    assert states(store, [first, urgent]) == [READY, BLOCKED]
    assert holder.claim_ids() == [first]


def test_key_is_one_for_all_queues_and_tasks(store: Store) -> None:
    holder = Holder(store, ["task", "other"])
    first = add(store, key=KEY, queue="a")
    second = add(store, "other", key=KEY, queue="b")
    third = add(store, key=KEY, queue="c", priority=1)
    assert states(store, [first, second, third]) == [READY, BLOCKED, BLOCKED]
    holder.settle(Complete(holder.take()))
    assert states(store, [second, third]) == [BLOCKED, READY]
    holder.settle(Complete(holder.take()))
    assert state(store, second) is READY


def test_bell_rings_for_the_one_whose_turn_comes(store: Store, holder: Holder) -> None:
    keyed(store, 2)
    lease = holder.take()
    with closing(store.listen(Topic.READY)) as bell:
        bell.wait(timedelta(0))
        holder.settle(Complete(lease))
        assert bell.wait(timedelta(seconds=10))


def test_strange_key_is_a_key_like_any_other(store: Store, holder: Holder) -> None:
    jobs = [job for key in ("Ü:%s '", "ü:%s '", "a:b:c", "key:a", " ") for job in
            keyed(store, 2, key=key)]  # fmt: skip
    assert states(store, jobs) == [READY, BLOCKED] * 5
    assert holder.claim_ids() == jobs[::2]
    assert get(store, jobs[1]).blocked_by == "waits for its turn of key Ü:%s '"


# -- who asks later


def test_scheduled_job_asks_for_its_turn_when_it_is_due(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    later = add(store, key=KEY, scheduled_for=clock.wall() + SECOND)
    now = add(store, key=KEY)
    assert states(store, [later, now]) == [State.SCHEDULED, READY]
    clock.advance(timedelta(seconds=1))
    store.promote()
    assert (state(store, later), get(store, later).blocked_by) == (BLOCKED, WAITS)
    holder.settle(Complete(holder.take()))
    assert holder.claim_ids() == [later]


def test_jobs_due_together_get_turns_in_order(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    at = clock.wall() + SECOND
    later, sooner = add(store, key=KEY, scheduled_for=at + 1), add(store, key=KEY, scheduled_for=at)
    clock.advance(timedelta(seconds=2))
    assert store.promote().ready == 1
    assert states(store, [later, sooner]) == [BLOCKED, READY]


def test_reopened_job_asks_for_its_turn(store: Store, holder: Holder) -> None:
    first, second = keyed(store, 2)
    holder.settle(Fail(holder.take(), BOOM))
    lease = holder.take()
    assert store.retry(first, 1) == 2
    kept = get(store, first)
    assert (kept.state, kept.blocked_by, kept.round) == (BLOCKED, WAITS, 2)
    assert told(store, first)[-1] is EventName.REOPENED
    holder.settle(Complete(lease))
    assert states(store, [first, second]) == [READY, State.SUCCEEDED]
    holder.settle(Complete(holder.take()))
    assert store.retry(first, 2) == 3
    assert state(store, first) is READY
