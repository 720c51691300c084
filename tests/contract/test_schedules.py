"""Schedules: each tick is fired once, whoever fires it; a repeat of anything changes nothing."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from contract.driver import BACKENDS, MINUTE, SECOND, Holder, get, new_id

from limpet.domain.cause import Raised
from limpet.domain.job import JobFilter, NewJob
from limpet.domain.rules import Rules, UniqueUntil
from limpet.domain.schedule import CatchUp, Schedule, Timing
from limpet.domain.state import State
from limpet.domain.transition import Complete, Quarantine
from limpet.maintenance.scheduler import Scheduler
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock

_HOUR = timedelta(hours=1)


def a_schedule(clock: FakeClock, id: str = "s", **fields: Any) -> Schedule:
    job = fields.pop("job", NewJob("", "task", '{"n": 1}'))
    timing = fields.pop("timing", Timing(every=MINUTE))
    return Schedule(
        **{"id": id, "job": job, "timing": timing, "next_at": clock.wall() + MINUTE, **fields}
    )


def put(store: Store, schedule: Schedule) -> Schedule:
    store.put_schedule(schedule)
    return seen(store, schedule.id)


def seen(store: Store, id: str = "s") -> Schedule:
    found = store.schedule(id)
    assert found is not None
    return found


def fire(store: Store, schedule: Schedule, tick: int | None = None) -> Any:
    """Fire the tick to come, as a scheduler would."""
    at = schedule.next_at if tick is None else tick
    return store.tick(schedule, [schedule.job_of(at)], at + MINUTE)


def ids(store: Store) -> list[str]:
    return [job.id for job in store.jobs(JobFilter(), limit=1000).jobs]


# -- put


def test_a_schedule_is_kept_as_it_was_put(store: Store, clock: FakeClock) -> None:
    job = NewJob(
        "", "report", '{"of": "day"}', "night", '{"timeout": 5.0}', ("of",), 7, 5, 60, 90,
        key="k", unique="u", payload_version=3,
        rules=Rules(key_limit=2, unique_until=UniqueUntil.STARTED),
    )  # fmt: skip
    given = a_schedule(
        clock,
        job=job,
        timing=Timing(cron="0 3 * * *", tz="Europe/Berlin", jitter=9),
        catch_up=CatchUp.ALL,
        overlap=False,
        declared="app:app",
    )
    assert store.put_schedule(given)
    kept = seen(store)
    assert replace(kept, changed_at=0) == given
    assert kept.changed_at == clock.wall()
    assert store.schedules() == (kept,)


def test_what_was_put_is_put_again_and_nothing_changes(store: Store, clock: FakeClock) -> None:
    given = a_schedule(clock)
    assert store.put_schedule(given)
    before = store.schedules()
    clock.advance(_HOUR)
    assert not store.put_schedule(replace(given, next_at=clock.wall() + MINUTE))
    assert store.schedules() == before


def test_other_arguments_leave_the_next_tick_where_it_is(store: Store, clock: FakeClock) -> None:
    first = put(store, a_schedule(clock))
    clock.advance(timedelta(seconds=1))
    other = a_schedule(clock, job=NewJob("", "task", '{"n": 2}'))
    assert store.put_schedule(other)
    now = seen(store)
    assert (now.job.args, now.next_at) == ('{"n": 2}', first.next_at)
    assert now.changed_at > first.changed_at


def test_another_timing_sets_the_next_tick(store: Store, clock: FakeClock) -> None:
    put(store, a_schedule(clock))
    other = a_schedule(clock, timing=Timing(every=2 * MINUTE), next_at=clock.wall() + 2 * MINUTE)
    assert store.put_schedule(other)
    assert seen(store).next_at == other.next_at


def test_another_jitter_leaves_the_next_tick_where_it_is(store: Store, clock: FakeClock) -> None:
    first = put(store, a_schedule(clock))
    store.put_schedule(a_schedule(clock, timing=Timing(every=MINUTE, jitter=9), next_at=1))
    assert seen(store).next_at == first.next_at


def test_what_is_put_anew_keeps_what_became_of_it(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock))
    fire(store, schedule)
    store.pause_schedule("s")
    store.put_schedule(a_schedule(clock, job=NewJob("", "task", '{"n": 2}')))
    now = seen(store)
    assert now.paused
    assert (now.last_at, now.fired) == (schedule.next_at, 1)


# -- tick


def test_a_tick_hands_in_its_job_and_moves_on(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock))
    clock.advance(timedelta(minutes=1))
    told = fire(store, schedule)
    job = schedule.job_of(schedule.next_at)
    assert (told.outcome, told.next_at, told.last_job) == (
        "fired", schedule.next_at + MINUTE, job.id,
    )  # fmt: skip
    assert [(each.outcome, each.state) for each in told.receipts] == [("new", State.READY)]
    assert get(store, job.id).args == '{"n": 1}'
    now = seen(store)
    assert (now.next_at, now.last_at, now.last_job) == (
        schedule.next_at + MINUTE, schedule.next_at, job.id,
    )  # fmt: skip
    assert (now.fired, now.passed) == (1, 0)


def test_a_tick_is_fired_once(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock))
    assert fire(store, schedule).outcome == "fired"
    again = fire(store, schedule)
    assert (again.outcome, again.next_at) == ("late", schedule.next_at + MINUTE)
    assert len(ids(store)) == 1
    assert seen(store).fired == 1


def test_one_who_saw_what_was_changed_since_fires_nothing(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock))
    store.put_schedule(a_schedule(clock, job=NewJob("", "task", '{"n": 2}')))
    assert fire(store, schedule).outcome == "late"
    assert ids(store) == []


def test_a_schedule_never_ticks_backwards(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock))
    for next_at in (schedule.next_at, schedule.next_at - MINUTE):
        told = store.tick(schedule, [schedule.job_of(schedule.next_at)], next_at)
        assert told.outcome == "late"
    assert ids(store) == []


def test_a_job_of_a_fast_clock_waits_for_the_clock_of_the_store(
    store: Store, clock: FakeClock
) -> None:
    schedule = put(store, a_schedule(clock))
    told = fire(store, schedule)  # a minute early
    assert told.receipts[0].state is State.SCHEDULED
    assert get(store, told.last_job).ready_at == schedule.next_at


def test_many_ticks_are_fired_in_one_step(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock))
    ticks = [schedule.next_at + n * MINUTE for n in range(1000)]
    clock.advance(timedelta(days=1))
    told = store.tick(schedule, [schedule.job_of(at) for at in ticks], ticks[-1] + MINUTE)
    assert len(told.receipts) == 1000
    now = seen(store)
    assert (now.fired, now.last_at) == (1000, ticks[-1])
    assert len(ids(store)) == 1000


def test_missed_ticks_can_be_skipped(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock, overlap=False))
    fire(store, schedule)
    schedule = seen(store)
    told = store.tick(schedule, (), schedule.next_at + MINUTE)
    assert (told.outcome, told.receipts) == ("fired", ())
    now = seen(store)
    assert (now.next_at, now.fired, now.passed) == (schedule.next_at + MINUTE, 1, 0)
    assert now.last_job == schedule.last_job


def test_times_of_a_job_count_from_its_tick(store: Store, clock: FakeClock) -> None:
    job = NewJob("", "task", "{}", scheduled_for=5, expires_at=10, deadline_at=20)
    schedule = put(store, a_schedule(clock, job=job))
    made = get(store, fire(store, schedule).last_job)
    at = schedule.next_at
    assert (made.ready_at, made.expires_at, made.deadline_at) == (at + 5, at + 10, at + 20)
    assert seen(store).last_at == at


def test_a_job_that_is_not_taken_in_is_passed_over(store: Store, clock: FakeClock) -> None:
    job = NewJob("", "task", "{}", unique="one")
    schedule = put(store, a_schedule(clock, job=job))
    first = fire(store, schedule).last_job
    schedule = seen(store)
    told = fire(store, schedule)
    assert (told.outcome, told.receipts[0].outcome) == ("fired", "duplicate")
    now = seen(store)
    assert (now.fired, now.passed, now.last_job) == (1, 1, first)


# -- overlap


def test_a_tick_is_passed_over_while_the_last_job_is_not_finished(
    store: Store, clock: FakeClock
) -> None:
    schedule = put(store, a_schedule(clock, overlap=False))
    clock.advance(_HOUR)
    first = fire(store, schedule).last_job
    for state in (State.READY, State.RUNNING):
        if state is State.RUNNING:
            holder = Holder(store)
            lease = holder.take()
        schedule = seen(store)
        told = fire(store, schedule)
        assert (told.outcome, told.last_job) == ("passed", first)
        assert told.next_at == seen(store).next_at == schedule.next_at + MINUTE
        assert get(store, first).state is state
    assert (seen(store).fired, seen(store).passed) == (1, 2)
    holder.settle(Complete(lease))
    assert fire(store, seen(store)).outcome == "fired"
    assert len(ids(store)) == 2


def test_a_quarantined_job_does_not_keep_a_schedule_from_going_on(
    store: Store, clock: FakeClock
) -> None:
    schedule = put(store, a_schedule(clock, overlap=False))
    clock.advance(_HOUR)
    fire(store, schedule)
    holder = Holder(store)
    holder.settle(Quarantine(holder.take(), Raised("PayloadInvalid", "no")))
    assert fire(store, seen(store)).outcome == "fired"


def test_ticks_overlap_where_that_is_allowed(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock))
    fire(store, schedule)
    assert fire(store, seen(store)).outcome == "fired"
    assert len(ids(store)) == 2


# -- pause, remove


def test_a_paused_schedule_does_not_tick(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock))
    for _ in range(2):
        assert store.pause_schedule("s")
    assert fire(store, schedule).outcome == "paused"
    assert store.due_schedules(schedule.next_at + MINUTE) == ((), None)
    assert ids(store) == []


def test_one_that_is_resumed_goes_on_from_then(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock))
    store.pause_schedule("s")
    later = schedule.next_at + 10 * MINUTE
    assert store.pause_schedule("s", False, later)
    now = seen(store)
    assert (now.paused, now.next_at) == (False, later)
    assert store.pause_schedule("s", False, later + MINUTE)  # it was not paused any more
    assert seen(store).next_at == later
    store.pause_schedule("s")
    store.pause_schedule("s", False, schedule.next_at)
    assert seen(store).next_at == later
    store.pause_schedule("s")
    store.pause_schedule("s", False)
    assert seen(store).next_at == later


def test_what_is_removed_ticks_no_more(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock))
    job = fire(store, schedule).last_job
    assert store.remove_schedule("s")
    assert not store.remove_schedule("s")
    assert fire(store, schedule).outcome == "gone"
    assert store.schedule("s") is None
    assert store.schedules() == ()
    assert not store.pause_schedule("s")
    assert get(store, job).state is State.SCHEDULED


# -- trigger


def test_a_trigger_hands_in_one_job_and_moves_nothing(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock))
    job = schedule.job_at(new_id(), clock.wall())
    for outcome in ("new", "already"):
        told = store.trigger(schedule, job)
        assert (told.outcome, told.receipts[0].outcome) == ("fired", outcome)
        assert told.last_job == job.id
    now = seen(store)
    assert (now.next_at, now.fired, now.last_at) == (schedule.next_at, 1, clock.wall())
    assert ids(store) == [job.id]


def test_a_trigger_fires_what_is_paused(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock))
    store.pause_schedule("s")
    told = store.trigger(schedule, schedule.job_at(new_id(), clock.wall()))
    assert told.outcome == "fired"
    assert seen(store).paused


def test_a_trigger_does_not_overlap_either(store: Store, clock: FakeClock) -> None:
    schedule = put(store, a_schedule(clock, overlap=False))
    first = schedule.job_at(new_id(), clock.wall())
    store.trigger(schedule, first)
    told = store.trigger(schedule, schedule.job_at(new_id(), clock.wall()))
    assert (told.outcome, told.last_job, seen(store).passed) == ("passed", first.id, 0)
    assert store.trigger(schedule, first).receipts[0].outcome == "already"  # a repeat of the first
    assert fire(store, seen(store)).outcome == "passed"


def test_what_is_not_there_cannot_be_triggered(store: Store, clock: FakeClock) -> None:
    schedule = a_schedule(clock)
    told = store.trigger(schedule, schedule.job_at(new_id(), clock.wall()))
    assert told.outcome == "gone"
    assert ids(store) == []


# -- what is due


def test_what_is_due_comes_earliest_first(store: Store, clock: FakeClock) -> None:
    now = clock.wall()
    for name, at in (("c", 3), ("a", 5), ("b", 3), ("d", 9), ("e", 8)):
        store.put_schedule(a_schedule(clock, name, next_at=now + at * SECOND))
    due, later = store.due_schedules(now + 5 * SECOND)
    assert [each.id for each in due] == ["b", "c", "a"]
    assert later == now + 8 * SECOND
    assert store.due_schedules(now + 9 * SECOND)[1] is None
    assert [each.id for each in store.schedules()] == list("abcde")


# -- two at once


@pytest.fixture
def two(backend: str, clock: FakeClock, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """The same store, opened twice."""
    url = BACKENDS[backend](tmp_path)
    one = open_store(url, clock)
    one.migrate()
    other = one if backend == "sqlite-memory" else open_store(url, clock)
    yield one, other
    assert one.invariants() == ()
    one.close()
    other.close()


def test_two_schedulers_at_the_same_ticks_fire_each_once(
    two: tuple[Store, Store], clock: FakeClock
) -> None:
    number = 1000
    one, _ = two
    one.put_schedule(a_schedule(clock, timing=Timing(every=MINUTE), catch_up=CatchUp.ONE))
    first = seen(one).next_at
    both, errors = threading.Barrier(2, action=lambda: clock.advance(timedelta(minutes=1))), []

    def run(store: Store) -> None:
        try:
            scheduler = Scheduler(store, clock)
            for _ in range(number):
                both.wait(60)  # both at the very same tick
                scheduler.run()
        except BaseException as error:
            errors.append(error)
            both.abort()

    threads = [threading.Thread(target=run, args=(store,)) for store in two]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    expected = {a_schedule(clock).job_of(first + n * MINUTE).id for n in range(number)}
    assert set(ids(one)) == expected
    now = seen(one)
    assert (now.fired, now.passed, now.next_at) == (number, 0, first + number * MINUTE)
