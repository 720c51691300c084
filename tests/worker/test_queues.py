"""A worker serves the queues it was given, as many jobs of each at once, in their order."""

import random
import time
from collections.abc import Sequence

import pytest
from worker.notes import most_at_once, notes
from worker.place import Handle, Place, until
from worker.tasks import queues, results

from limpet import State


def test_no_more_of_a_queue_run_at_once_than_allowed(place: Place) -> None:
    """Sync and async jobs of a queue share its limit."""
    a, b, c = (f"{place.notes}-{name}" for name in "abc")
    jobs = []
    for n in range(16):
        jobs.append((queues.in_a if n % 2 else queues.in_a_async).enqueue(a))
        jobs.append(queues.in_b.enqueue(b, 0.02))
    other = queues.in_c.enqueue(c)
    place.worker("-q", "a=2", "-q", "b=1")
    place.until_over(*jobs, seconds=30)
    assert most_at_once(a) == 2
    assert most_at_once(b) == 1
    assert len(notes(a, "end")) == len(notes(b, "end")) == 16
    assert place.job(other).state is State.READY
    assert notes(c) == []


def test_without_q_all_queues_are_served(place: Place) -> None:
    place.worker("--lanes", "2")
    jobs: list[Handle] = [
        task.enqueue(place.notes) for task in (queues.in_a, queues.in_b, queues.in_c)
    ]
    jobs.append(results.add.using(queue="never-named-before").enqueue(1, 2))
    place.until_over(*jobs)


def test_a_queue_without_a_number_is_bounded_by_the_lanes_only(place: Place) -> None:
    jobs = [queues.in_a.enqueue(place.notes, 0.2) for _ in range(9)]
    place.worker("-q", "a", "--lanes", "3")
    place.until_over(*jobs)
    assert most_at_once(place.notes) == 3


def test_no_more_async_jobs_run_at_once_than_allowed(place: Place) -> None:
    jobs = [queues.in_a_async.enqueue(place.notes, 0.02) for _ in range(40)]
    place.worker("--async-jobs", "4")
    place.until_over(*jobs)
    assert most_at_once(place.notes) == 4


def test_lanes_are_kept_to(narrow: Place) -> None:
    jobs = [queues.in_a.enqueue(narrow.notes, 0.02) for _ in range(20)]
    narrow.until_over(*jobs)
    assert most_at_once(narrow.notes) == 1
    assert len({each["pid"] for each in notes(narrow.notes)}) == 1


def test_a_worker_without_lanes_leaves_sync_jobs_to_others(place: Place) -> None:
    sync = queues.in_a.enqueue(place.notes)
    place.worker("--lanes", "0")
    assert results.add_async.enqueue(1, 2).result(timeout=10) == 3
    time.sleep(0.2)
    assert place.job(sync).state is State.READY
    place.worker("--lanes", "1", "--async-jobs", "0")
    place.until_state(sync, State.SUCCEEDED)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_higher_priority_is_sooner_and_equals_keep_their_order(place: Place, kind: str) -> None:
    task = queues.numbered if kind == "sync" else queues.numbered_async
    priorities = [n % 5 for n in range(40)]
    random.Random(1).shuffle(priorities)
    wanted = sorted(range(40), key=lambda n: (-priorities[n], n))
    calls = [task.using(priority=p).call(place.notes, n) for n, p in enumerate(priorities)]
    jobs = place.app.enqueue_many(calls)
    place.worker("--lanes", "1", "--async-jobs", "1")
    place.until_over(*jobs)
    assert [each["number"] for each in notes(place.notes, "run")] == wanted


def test_a_long_job_does_not_hold_up_short_ones_behind_it(place: Place) -> None:
    """Whatever was given to its lane ahead of time is taken back and runs elsewhere."""
    place.worker("--lanes", "2")
    warm = [queues.numbered.enqueue(f"{place.notes}-warm", n) for n in range(300)]
    long = queues.long_one.enqueue(place.notes, 60)
    short = [queues.numbered.enqueue(place.notes, n) for n in range(300)]
    place.until_over(*warm, *short, seconds=30)
    assert place.job(long).state is State.RUNNING
    assert len(notes(place.notes, "run")) == 300
    assert_rarely_handed_back(place, short)


def test_jobs_behind_a_long_one_are_handed_to_another_worker(place: Place) -> None:
    """With a single lane nobody here can take them, so they must not stay claimed."""
    place.worker("--lanes", "1", "--name", "one")
    warm = [queues.numbered.enqueue(f"{place.notes}-warm", n) for n in range(200)]
    long = queues.long_one.enqueue(place.notes, 60)
    short = [queues.numbered.enqueue(place.notes, n) for n in range(50)]
    until(lambda: notes(place.notes, "long"))
    until(lambda: {place.job(job).state for job in short} == {State.READY}, 3)
    place.worker("--lanes", "1", "--name", "two")
    place.until_over(*warm, *short, seconds=20)
    assert place.job(long).state is State.RUNNING
    assert_rarely_handed_back(place, short)


def assert_rarely_handed_back(place: Place, jobs: Sequence[Handle]) -> None:
    most = max(place.events(job).count("released") for job in jobs)
    assert most <= 3, f"handed back {most} times"


def test_a_paused_queue_waits_and_goes_on(shared: Place) -> None:
    shared.store.pause("b", True)
    try:
        job = queues.in_b.enqueue(shared.notes, 0.0)
        time.sleep(0.7)
        assert shared.job(job).state is State.READY
    finally:
        shared.store.pause("b", False)
    shared.until_state(job, State.SUCCEEDED, seconds=3)
