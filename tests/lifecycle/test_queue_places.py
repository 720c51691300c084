"""Limits of queues in one worker hold at every moment, though it claims the next jobs ahead."""

import random
import signal
import time
from itertools import pairwise

import pytest
from lifecycle.app import app
from lifecycle.intervals import Attempt, attempts
from lifecycle.orphans import all_jobs, assert_no_orphans
from lifecycle.place import Handle, Place, allowance
from lifecycle.processes import send
from lifecycle.tasks import quick, steady, steady_sync
from lifecycle.tree import Part, Settings, Worker

from limpet import Call, Task

EVERY_STORE = True
PLACES = {"one": 1, "lane": 1, "three": 3}
KINDS: dict[str, tuple[Task[..., int], ...]] = {
    "one": (steady,),
    "lane": (steady_sync,),
    "three": (steady, steady_sync),
}
# Without tasks that have a weight: beside those nothing is claimed ahead.
APP = "lifecycle.tasks:app"
SETTINGS = Settings(
    lanes=4, queues=tuple(f"{queue}={count}" for queue, count in PLACES.items()), app=APP
)
JOBS = 70
# How long jobs may wait in a worker behind one that goes on, while another worker is free.
DELAYED_SECONDS = 0.25


def calls(chance: random.Random) -> list[Call]:
    """Short jobs of each queue, in turn."""
    return [
        chance.choice(KINDS[queue]).using(queue=queue).call(seconds=chance.random() / 40)
        for _ in range(JOBS)
        for queue in PLACES
    ]


def by_queue(place: Place) -> dict[str, list[Attempt]]:
    """The attempts of each queue, in the order in which they began."""
    runs = attempts(place.records())
    found: dict[str, list[Attempt]] = {queue: [] for queue in PLACES}
    for job in all_jobs(place):
        found[job.queue] += runs.get(job.id, [])
    return {queue: sorted(them, key=lambda run: run.first) for queue, them in found.items()}


def most_at_once(runs: list[Attempt]) -> int:
    """How many of them ran at the same moment."""
    steps = sorted([(run.first, 1) for run in runs] + [(run.last, -1) for run in runs])
    now = most = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def kill_while_it_works(place: Place, worker: Worker, *parts: Part) -> None:
    """Kill each of these parts, once some more jobs are over."""
    for part in parts:
        left = place.unfinished()
        place.until(lambda left=left: place.unfinished() < left - 12, said="some are over")  # type: ignore[misc]
        victims = [process for process in worker.processes() if process.comm == part]
        if victims:
            send(victims[0].pid, signal.SIGKILL)


@pytest.mark.timeout(120)
def test_never_more_of_a_queue_than_its_number_whatever_part_of_the_worker_is_killed(
    one_place: Place,
) -> None:
    """And what had not begun is charged nothing."""
    place = one_place
    handles = app.enqueue_many(calls(random.Random(3)))
    worker = place.worker(settings=SETTINGS)
    kill_while_it_works(place, worker, Part.LOOP, Part.LANE, Part.SUPERVISOR, Part.LOOP)
    place.until_final(handles)
    found = by_queue(place)
    for queue, count in PLACES.items():
        assert most_at_once(found[queue]) <= count, queue
    began = attempts(place.records())
    for job in all_jobs(place):
        # One that had begun only just before a kill may go uncharged; no other is charged.
        assert job.counters.orphans < len(began[job.id]), job.id
    assert sum(job.counters.orphans for job in all_jobs(place)) > 0, "the kills hit nobody"
    assert_no_orphans(place)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("queue", "part"), [("one", Part.LOOP), ("lane", Part.LANE)])
def test_jobs_of_one_place_begin_in_order_and_lost_ones_first(
    one_place: Place, queue: str, part: Part
) -> None:
    place = one_place
    (task,) = KINDS[queue]
    handles = app.enqueue_many(task.using(queue=queue).call(seconds=0.005) for _ in range(JOBS))
    worker = place.worker(settings=Settings(lanes=2, queues=(f"{queue}=1",), app=APP))
    kill_while_it_works(place, worker, part, Part.SUPERVISOR, part)
    place.until_final(handles)
    for earlier, later in pairwise(by_queue(place)[queue]):
        assert later.job >= earlier.job, "a job overtook one that was handed in before it"
    assert_no_orphans(place)


@pytest.mark.timeout(120)
def test_jobs_behind_one_that_goes_on_are_soon_run_by_a_worker_that_is_free(
    one_place: Place,
) -> None:
    place = one_place
    settings = Settings(queues=("one=1",), app=APP)
    place.worker(settings=settings)
    place.worker(settings=settings)
    in_one = quick.using(queue="one")
    # The throughput of the queue is measured before the long job comes.
    before: list[Handle] = [in_one.enqueue(number=number) for number in range(200)]
    long: Handle = steady.using(queue="one").enqueue(word="over")
    after: list[Handle] = [in_one.enqueue(number=number) for number in range(30)]
    place.until_begun(long)
    began = time.time()
    place.until_final(after)
    took = max(place.job(job).finished_at or 0 for job in after) / 1e6 - began
    assert took < DELAYED_SECONDS + allowance(), f"{took:.2f} s"
    place.say("over")
    place.until_final([*before, long])
    assert {place.job(job).counters for job in [*before, *after]} == {(0, 0, 0)}
    assert_no_orphans(place)
