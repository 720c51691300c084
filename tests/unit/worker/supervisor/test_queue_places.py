"""Limits of queues in one worker: who may start, who waits, and for how long."""

from collections.abc import Iterable

import pytest

from limpet.domain.cause import Drained
from limpet.domain.job import ClaimedJob, Counters
from limpet.domain.lease import Lease
from limpet.domain.transition import Complete, Release
from limpet.worker.supervisor import queue_places
from limpet.worker.supervisor.ledger import Hold, Ledger
from limpet.worker.supervisor.queue_places import QueuePlaces


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.us = 1_000_000
        monkeypatch.setattr(queue_places, "now", lambda: self.us)
        monkeypatch.setattr("limpet.worker.supervisor.demand.now", lambda: self.us)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Worker:
    """The places of a worker, and a store that always has jobs."""

    def __init__(self, **limits: int | None) -> None:
        self.ledger = Ledger()
        self.places = QueuePlaces(limits, self.ledger)
        self.running: list[Hold] = []
        self._number = 0

    def claim(self, queue: str, count: int = 1, args: str = "{}") -> list[Hold]:
        jobs = []
        for _ in range(count):
            self._number += 1
            lease = Lease(f"{queue}{self._number}", "s", 1)
            counters = Counters()
            jobs.append(
                ClaimedJob(lease, "t", queue, 1, 1, counters, False, False, 1, args, "{}", (), None)
            )
        holds = self.ledger.take(jobs)
        self.running += [hold for hold in holds if not self.places.enter(hold)]
        self.start()
        return holds

    def start(self) -> None:
        self.running += self.places.started()

    def end(self, *holds: Hold) -> None:
        self.ledger.complete(holds, [Complete(hold.lease) for hold in holds])
        for hold in holds:
            self.running.remove(hold)
        self.start()

    def names(self) -> list[str]:
        return [hold.lease.job for hold in self.running]


def run_for(worker: Worker, clock: Clock, seconds: float, *, each_ms: int, queue: str) -> None:
    """Jobs of so many milliseconds end one after the other, and the next is claimed each time."""
    for _ in range(round(seconds * 1000 / each_ms)):
        clock.us += each_ms * 1_000
        worker.end(worker.running[0])
        wanted = worker.places.wanted(queue, 1, ahead=True)
        worker.claim(queue, max(0, wanted))


def left(holds: Iterable[Hold]) -> list[str]:
    return [hold.lease.job for hold in holds]


def test_no_more_jobs_of_a_queue_start_than_its_limit_and_the_first_is_the_first(
    clock: Clock,
) -> None:
    worker = Worker(a=2, b=1)
    first, *_ = worker.claim("a", 4)
    worker.claim("b", 2)
    assert worker.names() == ["a1", "a2", "b5"]
    worker.end(first)
    assert worker.names() == ["a2", "b5", "a3"]


def test_a_queue_without_a_limit_waits_for_nothing(clock: Clock) -> None:
    worker = Worker(a=1, free=None)
    worker.claim("free", 50)
    worker.claim("other", 50)
    assert len(worker.running) == 100


def test_nothing_is_claimed_ahead_before_the_queue_is_measured(clock: Clock) -> None:
    worker = Worker(a=3)
    assert worker.places.wanted("a", 3, ahead=True) == 3
    worker.claim("a", 3)
    clock.us += 50_000
    assert worker.places.wanted("a", 3, ahead=True) == 0


def test_about_fifty_milliseconds_of_its_own_work_are_claimed_ahead(clock: Clock) -> None:
    worker = Worker(a=1)
    worker.claim("a")
    run_for(worker, clock, 2, each_ms=5, queue="a")
    waiting = len(worker.ledger.holds) - 1
    assert 4 <= waiting <= 11
    assert worker.places.wanted("a", 1, ahead=False) < 0


def test_slow_jobs_are_not_claimed_ahead(clock: Clock) -> None:
    """One that takes longer than a job may wait here would be handed back each time."""
    worker = Worker(a=1)
    worker.claim("a")
    run_for(worker, clock, 20, each_ms=400, queue="a")
    assert len(worker.ledger.holds) == 1


def test_large_jobs_that_wait_are_bounded_in_bytes(clock: Clock) -> None:
    worker = Worker(a=1)
    worker.claim("a", args="x" * 600_000)
    for _ in range(400):
        clock.us += 5_000
        worker.end(worker.running[0])
        worker.claim("a", max(0, worker.places.wanted("a", 1, ahead=True)), args="x" * 600_000)
    assert len(worker.ledger.holds) <= 2


def test_what_waits_behind_a_job_that_goes_on_is_handed_back_by_the_clock_of_its_queue(
    clock: Clock,
) -> None:
    worker = Worker(a=1, b=1)
    worker.claim("a")
    run_for(worker, clock, 2, each_ms=5, queue="a")
    worker.claim("b", 2)
    waiting = len(worker.ledger.holds) - 3
    assert waiting > 2
    for _ in range(20):
        assert left(worker.places.overdue()) == []
        clock.us += 5_000
        # The other queue moves all the time.
        worker.end(worker.running[-1])
        worker.claim("b")
    clock.us += 1
    back = list(worker.places.overdue())
    assert {hold.claimed.queue for hold in back} == {"a"}
    assert len(back) == waiting
    for hold in back:
        worker.ledger.forget(hold)
    # Nothing is claimed ahead until a job of the queue has ended.
    assert worker.places.wanted("a", 1, ahead=True) == 0
    run_for(worker, clock, 1, each_ms=5, queue="a")
    assert len(worker.ledger.holds) > 3


def test_what_waits_behind_jobs_that_go_back_goes_back_too(clock: Clock) -> None:
    """Else it would overtake them."""
    worker = Worker(a=1, b=1)
    first, *rest = worker.claim("a", 4)
    worker.claim("b", 2)
    assert list(worker.places.behind([first])) == rest
    assert list(worker.places.behind([first])) == []
    assert worker.names() == ["a1", "b5"]


def test_nothing_of_a_queue_is_claimed_or_started_while_its_jobs_are_on_their_way_back(
    clock: Clock,
) -> None:
    """Else jobs that are more than one exchange takes would go to and fro for ever."""
    worker = Worker(a=1)
    first, *rest = worker.claim("a", 1_500)
    for hold in [first, *worker.places.behind([first])]:
        worker.ledger.settle(hold, Release(hold.lease, Drained()))
    worker.places.close([first])
    assert len(rest) == 1_499
    while worker.ledger.next_batch():
        assert worker.places.wanted("a", 1, ahead=True) == 0
        assert worker.places.wanted("a", 1, ahead=False) == 0
        (late,) = worker.claim("a")
        assert list(worker.places.late()) == [late]
        worker.ledger.forget(late)
        worker.ledger.acknowledged()
    assert worker.places.wanted("a", 1, ahead=True) == 1
    assert list(worker.places.late()) == []


def test_what_is_handed_back_or_cancelled_is_no_throughput(clock: Clock) -> None:
    worker = Worker(a=1)
    _, second, *_ = worker.claim("a", 4)
    assert worker.places.remove(second)
    worker.ledger.forget(second)
    assert not worker.places.remove(second)
    for hold in list(worker.places.empty()):
        worker.ledger.forget(hold)
    clock.us += 10_000
    assert worker.places.wanted("a", 1, ahead=True) == 0
    assert worker.names() == ["a1"]
