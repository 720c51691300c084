"""To be the only one: what the handle says where another job holds the `unique`."""

import asyncio
import threading
from pathlib import Path

import apsw
import pytest
from client.hand import Hand

from limpet import (
    App,
    DuplicateJob,
    JobCancelled,
    JobHandle,
    State,
    StoreUnreachable,
    Task,
    Unique,
)
from limpet.domain.cause import Replaced
from limpet.domain.transition import Complete

Work = Task[[], int]


@pytest.fixture
def work(app: App) -> Work:
    @app.task
    def work() -> int:
        return 7

    return work


def jobs_there(app: App) -> int:
    return sum(sum(view.counts.values()) for view in app.client.store.queues())


def test_the_second_gets_the_handle_of_the_first(app: App, work: Work) -> None:
    first = work.using(unique="welcome:42").enqueue()
    second = work.using(unique="welcome:42").enqueue()
    third = asyncio.run(work.using(unique="welcome:42").aenqueue())
    assert first.accepted
    assert (second.accepted, third.accepted) == (False, False)
    assert first.id == second.id == third.id
    assert second.state is State.READY
    assert work.using(unique="welcome:43").enqueue().accepted
    hand = Hand(app)
    hand.exchange(*(Complete(job.lease, "7") for job in hand.exchange().claimed), room=0)
    assert second.result("5s") == 7
    assert work.using(unique="welcome:42").enqueue().accepted
    assert jobs_there(app) == 3


def test_of_two_tasks_each_has_its_own(app: App, work: Work) -> None:
    other = app.task(name="other")(lambda: None)
    assert work.using(unique="a").enqueue().accepted
    assert other.using(unique="a").enqueue().accepted


def test_a_dropped_one_says_so_whatever_it_is_asked(app: App, work: Work) -> None:
    dropping = work.using(unique=Unique("a", on_conflict="drop"))
    first = dropping.enqueue()
    assert first.accepted
    dropped = dropping.enqueue()
    assert not dropped.accepted
    assert "work" in repr(dropped)
    for ask in (
        lambda: dropped.state,
        lambda: dropped.details,
        lambda: dropped.children,
        lambda: dropped.parent,
        lambda: dropped.result("1s"),
        dropped.refresh,
        dropped.cancel,
        dropped.retry,
        lambda: asyncio.run(dropped.aresult("1s")),
        lambda: asyncio.run(dropped.acancel()),
    ):
        with pytest.raises(DuplicateJob, match=f"job {first.id} holds unique 'a'") as caught:
            ask()
        assert caught.value.job == first.id
    assert first.refresh().state is State.READY


def test_a_newer_one_takes_the_place_of_one_that_waits(app: App, work: Work) -> None:
    debounced = work.using(delay="10s", unique=Unique("a", on_conflict="replace"))
    first, second = debounced.enqueue(), debounced.enqueue()
    assert second.accepted
    assert second.id != first.id
    with pytest.raises(JobCancelled) as caught:
        first.result("5s")
    assert caught.value.cause == Replaced(second.id)
    assert second.state is State.SCHEDULED


def test_until_started_is_over_when_it_starts(app: App, work: Work) -> None:
    once = work.using(unique=Unique("a", until="started"))
    first = once.enqueue()
    assert not once.enqueue().accepted
    hand = Hand(app)
    (claimed,) = hand.exchange().claimed
    second = once.enqueue()
    assert second.accepted
    assert second.id != first.id
    hand.exchange(Complete(claimed.lease), room=0)


def test_for_a_time_it_holds_whatever_became_of_it(app: App, work: Work) -> None:
    once = work.using(unique=Unique("a", until="10m"))
    first = once.enqueue()
    hand = Hand(app)
    hand.exchange(Complete(hand.exchange().claimed[0].lease, "7"), room=0)
    second = once.enqueue()
    assert not second.accepted
    assert second.id == first.id
    assert second.result("5s") == 7


def test_many_at_once_each_get_their_handle(app: App, work: Work) -> None:
    there = work.using(unique="a").enqueue()
    dropping = work.using(unique=Unique("b", on_conflict="drop"))
    jobs = app.enqueue_many(
        [work.using(unique="a").call(), work.call(), dropping.call(), dropping.call()]
    )
    assert [job.accepted for job in jobs] == [False, True, True, False]
    assert jobs[0].id == there.id
    with pytest.raises(DuplicateJob, match=jobs[2].id):
        jobs[3].refresh()
    assert jobs_there(app) == 3


def test_within_a_transaction_the_same_holds(app: App, work: Work, tmp_path: Path) -> None:
    own = apsw.Connection(str(tmp_path / "jobs.db"))
    own.execute("BEGIN IMMEDIATE")
    first = work.using(unique="a").enqueue(within=own)  # type: ignore[call-arg]
    second = work.using(unique="a").enqueue(within=own)  # type: ignore[call-arg]
    own.execute("COMMIT")
    assert (first.accepted, second.accepted) == (True, False)
    assert first.id == second.id
    assert not work.using(unique="a").enqueue().accepted
    own.close()


def test_a_job_whose_answer_was_lost_is_not_its_own_duplicate(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(url, store_patience="20s")

    @app.task
    def work() -> None: ...

    real, lost = app.client.store.enqueue, [StoreUnreachable("the answer was lost")]

    def enqueue(jobs, **options):  # type: ignore[no-untyped-def]
        answer = real(jobs, **options)
        if lost:
            raise lost.pop()
        return answer

    monkeypatch.setattr(app.client.store, "enqueue", enqueue)
    assert work.using(unique="a").enqueue().accepted
    assert not work.using(unique="a").enqueue().accepted
    app.close()


def test_of_50_threads_one_gets_it_in(app: App, work: Work) -> None:
    handles: list[JobHandle[int]] = []
    begin = threading.Barrier(50)

    def hand_in() -> None:
        begin.wait()
        handles.append(work.using(unique="a").enqueue())

    threads = [threading.Thread(target=hand_in) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(handles) == 50
    assert [handle.accepted for handle in handles].count(True) == 1
    assert len({handle.id for handle in handles}) == 1
    assert jobs_there(app) == 1


def test_of_50_coroutines_one_gets_it_in(app: App, work: Work) -> None:
    async def all_at_once() -> list[JobHandle[int]]:
        once = work.using(unique="a")
        return await asyncio.gather(*(once.aenqueue() for _ in range(50)))

    handles = asyncio.run(all_at_once())
    assert [handle.accepted for handle in handles].count(True) == 1
    assert jobs_there(app) == 1
