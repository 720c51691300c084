"""The order of a line: ready time, each priority worth 60 s of waiting, then first come."""

from datetime import timedelta

from contract.driver import BOOM, MINUTE, SECOND, Holder, add, add_many, get

from limpet.domain.cause import Drained
from limpet.domain.transition import Release, RetryAt
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

MOMENT = timedelta(seconds=1)


def test_jobs_of_one_moment_are_claimed_first_come_first_served(store: Store) -> None:
    jobs = add_many(store, 20)
    assert Holder(store).claim_ids(20) == jobs


def test_older_jobs_are_claimed_first(store: Store, clock: FakeClock) -> None:
    jobs = []
    for _ in range(5):
        jobs.append(add(store))
        clock.advance(MOMENT)
    assert Holder(store).claim_ids() == jobs


def test_claim_with_little_room_takes_the_head_of_the_line(store: Store, clock: FakeClock) -> None:
    jobs = []
    for _ in range(3):
        jobs.append(add(store))
        clock.advance(MOMENT)
    holder = Holder(store)
    assert [holder.claim_ids(1) for _ in range(3)] == [[job] for job in jobs]


def test_higher_priority_is_claimed_sooner(store: Store) -> None:
    low, high, middle = (add(store, priority=each) for each in (-1, 2, 0))
    assert Holder(store).claim_ids() == [high, middle, low]


def test_one_priority_is_worth_a_minute_of_waiting(store: Store, clock: FakeClock) -> None:
    old = add(store)
    clock.advance(timedelta(seconds=60, microseconds=1))
    too_late = add(store, priority=1)
    just_in_time = add(store, priority=2)
    assert Holder(store).claim_ids() == [just_in_time, old, too_late]


def test_a_scheduled_job_stands_in_line_from_the_time_it_was_due(
    store: Store, clock: FakeClock
) -> None:
    due = add(store, scheduled_for=clock.wall() + SECOND)
    clock.advance(timedelta(seconds=2))
    younger = add(store)
    store.promote()
    assert Holder(store).claim_ids() == [due, younger]


def test_released_job_keeps_its_place(store: Store, clock: FakeClock) -> None:
    first, second = add_many(store, 2)
    holder = Holder(store)
    lease = holder.take()
    clock.advance(MOMENT)
    holder.settle(Release(lease, Drained()))
    assert holder.claim_ids() == [first, second]


def test_recovered_job_keeps_its_place(store: Store, clock: FakeClock) -> None:
    first, second = add_many(store, 2)
    holder = Holder(store)
    holder.take(begin=True)
    clock.advance(MOMENT)
    holder.vanish()
    assert Holder(store).claim_ids() == [first, second]


def test_retried_attempt_gets_a_new_place(store: Store, clock: FakeClock) -> None:
    first, second = add_many(store, 2)
    holder = Holder(store)
    holder.settle(RetryAt(holder.take(), clock.wall() + SECOND, BOOM))
    clock.advance(timedelta(seconds=1))
    store.promote()
    assert holder.claim_ids() == [second, first]


def test_retried_attempt_keeps_its_priority(store: Store, clock: FakeClock) -> None:
    urgent = add(store, priority=3)
    holder = Holder(store)
    holder.settle(RetryAt(holder.take(), clock.wall() + SECOND, BOOM))
    plain = add(store)
    clock.advance(timedelta(seconds=1))
    store.promote()
    assert holder.claim_ids() == [urgent, plain]


def test_reopened_job_goes_to_the_end_of_the_line(store: Store, clock: FakeClock) -> None:
    first, second = add_many(store, 2)
    store.cancel(first)
    clock.advance(MOMENT)
    store.retry(first, get(store, first).round)
    assert Holder(store).claim_ids() == [second, first]


def test_lines_of_several_queues_are_claimed_as_one(store: Store, clock: FakeClock) -> None:
    jobs = []
    for queue in ("b", "a", "c", "a", "b"):
        jobs.append(add(store, queue=queue))
        clock.advance(MOMENT)
    assert Holder(store).claim_ids() == jobs


def test_priority_counts_over_lines_of_several_tasks_and_queues(store: Store) -> None:
    late = [add(store, task, queue=queue) for task in "ab" for queue in ("one", "two")]
    soon = [add(store, task, queue=queue, priority=1) for task in "ab" for queue in ("two", "one")]
    holder = Holder(store, ["a", "b"])
    assert holder.claim_ids(3) == soon[:3]
    assert holder.claim_ids() == [soon[3], *late]


def test_unblocked_job_keeps_its_place(store: Store, clock: FakeClock) -> None:
    stranger = add(store, "strange", priority=1)
    clock.advance(MOMENT)
    plain = add(store, scheduled_for=clock.wall() - MINUTE)
    Holder(store).claim(0, {"default": 1})
    holder = Holder(store, ["task", "strange"])
    assert holder.claim_ids() == [stranger, plain]
