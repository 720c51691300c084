"""Handing in: from threads, coroutines, in bulk, with limits."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from client.hand import Hand

from limpet import (
    App,
    Call,
    InvalidOption,
    PayloadInvalid,
    QueueFull,
    QueueLimit,
    Retry,
    State,
    StoreUnreachable,
    UnknownTask,
)
from limpet.domain.job import JobFilter
from limpet.domain.transition import Complete


def test_an_enqueued_job_is_there_for_every_process(app: App, url: str) -> None:
    @app.task(queue="email", priority=2, timeout="60s", retry=Retry(attempts=3))
    def send(to: str) -> None: ...

    job = send.enqueue(to="a@b.c")
    assert job.state is State.READY
    other = App(url)
    seen = other.job(job.id)
    assert (seen.task, seen.state) == ("send", State.READY)
    assert seen.details.queue == "email"
    assert seen.details.priority == 2
    assert '"timeout":60.0' in seen.details.options
    assert '"attempts":3' in seen.details.options
    other.close()


def test_calling_a_task_runs_it_here_and_now(app: App) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, 2) == 3
    assert add(1, b=2) == 3


def test_using_changes_one_call_and_not_the_task(app: App) -> None:
    @app.task
    def work() -> None: ...

    later = work.using(delay="10m", queue="slow").enqueue()
    assert later.state is State.SCHEDULED
    assert later.details.queue == "slow"
    assert work.enqueue().state is State.READY
    at = datetime.now(UTC) + timedelta(hours=1)
    scheduled = work.using(delay=at).enqueue()
    assert scheduled.details.ready_at == int(at.timestamp() * 1e6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queu": "x"}, "unknown option queu"),
        ({"delay": "soon"}, "delay is 'soon'"),
        ({"priority": "high"}, "priority 'high'"),
        ({"queue": "a b"}, "queue 'a b'"),
        ({"retry": 3}, "retry is 3"),
        ({"delay": datetime(2030, 1, 1)}, "no time zone"),
        ({"delay": "1h", "expires": "10m"}, "expires comes before"),
        ({"deadline": 0}, "deadline comes before"),
    ],
)
def test_a_wrong_option_is_refused_with_its_name(
    app: App, options: dict[str, Any], words: str
) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(InvalidOption, match=words):
        work.using(**options).enqueue()
    assert not app.client.store.queues()


def test_two_tasks_of_one_name_are_refused(app: App) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(InvalidOption, match="already a task 'work'"):
        app.task(name="work")(lambda: None)
    with pytest.raises(UnknownTask, match="this app has: work"):
        app.find("wrk")


def test_many_are_handed_in_with_few_writes_and_keep_their_order(app: App) -> None:
    @app.task
    def work(n: int) -> None: ...

    jobs = app.enqueue_many([work.call(n=n) for n in range(2500)])
    assert [job.state for job in jobs] == [State.READY] * 2500
    hand = Hand(app)
    claimed = [job.lease.job for job in hand.exchange(room=1000).claimed]
    assert claimed == [job.id for job in jobs[:1000]]


def test_concurrent_enqueues_of_threads_share_writes_and_lose_nothing(app: App) -> None:
    @app.task
    def work(n: int) -> None: ...

    ids: list[str] = []

    def enqueue_some(start: int) -> None:
        ids.extend(work.enqueue(n=start + k).id for k in range(50))

    threads = [threading.Thread(target=enqueue_some, args=(n * 50,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 800
    assert app.client.store.queues()[0].counts == {State.READY: 800}


def test_concurrent_enqueues_of_coroutines_share_writes(app: App) -> None:
    @app.task
    async def work(n: int) -> None: ...

    writes: Counter[int] = Counter()
    real = app.client.store.enqueue

    def counting(jobs, **options):  # type: ignore[no-untyped-def]
        writes[len(jobs)] += 1
        return real(jobs, **options)

    app.client.store.enqueue = counting  # type: ignore[method-assign]

    async def all_at_once() -> list[str]:
        jobs = await asyncio.gather(*(work.aenqueue(n=n) for n in range(500)))
        return [job.id for job in jobs]

    assert len(set(asyncio.run(all_at_once()))) == 500
    assert sum(size * count for size, count in writes.items()) == 500
    assert sum(writes.values()) < 100


def test_a_cap_refuses_and_writes_nothing(url: str) -> None:
    app = App(url, queues={"small": QueueLimit(cap=3)})

    @app.task(queue="small")
    def work(n: int) -> None: ...

    for n in range(3):
        work.enqueue(n=n)
    with pytest.raises(QueueFull, match="'small' is full: 3 jobs are waiting and its cap is 3"):
        work.enqueue(n=4)
    with pytest.raises(QueueFull):
        app.enqueue_many([work.call(n=5), work.call(n=6)])
    with pytest.raises(QueueFull):
        asyncio.run(work.aenqueue(n=7))
    assert len(app.client.store.jobs(JobFilter()).jobs) == 3
    app.close()


def test_calls_are_made_while_those_before_them_are_written(app: App) -> None:
    @app.task
    def work(n: int) -> None: ...

    store, made = app.client.store, threading.Event()
    real, waited = store.enqueue, []

    def slow(jobs, **options):  # type: ignore[no-untyped-def]
        waited.append(made.wait(10))
        return real(jobs, **options)

    def calls() -> Iterator[Call]:
        for n in range(2500):
            if n == 1500:
                made.set()
            yield work.call(n=n)

    store.enqueue = slow  # type: ignore[method-assign]
    jobs = app.enqueue_many(calls())
    assert waited == [True] * 3
    assert [job.details.args for job in jobs[::500]] == [
        f'{{"n":{n}}}' for n in range(0, 2500, 500)
    ]


def test_a_chunk_is_made_ready_while_the_one_before_is_written(app: App) -> None:
    @app.task
    def work(n: int) -> None: ...

    store, second, waited = app.client.store, threading.Event(), []
    real, asked = store.enqueue, []

    def slow(jobs, *, before_write, **options):  # type: ignore[no-untyped-def]
        asked.append(jobs)
        if len(asked) > 1:
            second.set()

        def when_ready() -> None:
            before_write()
            waited.append(second.wait(10))

        return real(jobs, before_write=when_ready, **options)

    store.enqueue = slow  # type: ignore[method-assign,assignment]
    jobs = app.enqueue_many([work.call(n=n) for n in range(2500)])
    assert waited == [True] * 3
    assert [each.id for each in store.jobs(JobFilter(), limit=1).jobs] == [jobs[-1].id]


def test_nothing_is_written_after_a_chunk_that_was_not(url: str) -> None:
    app = App(url, store_patience="0.2s")

    @app.task
    def work(n: int) -> None: ...

    store = app.client.store
    store.migrate()
    real = store.enqueue

    def failing(jobs, *, before_write, **options):  # type: ignore[no-untyped-def]
        if jobs[0].args == '{"n":0}':
            raise StoreUnreachable("gone")
        return real(jobs, before_write=before_write, **options)

    store.enqueue = failing  # type: ignore[method-assign,assignment]
    with pytest.raises(StoreUnreachable) as caught:
        app.enqueue_many([work.call(n=n) for n in range(2500)])
    assert caught.value.accepted == ()
    assert store.queues() == ()
    app.close()


def test_a_bulk_without_a_thread_to_be_had_is_written_all_the_same(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    def work(n: int) -> None: ...

    work.enqueue(n=0)  # what the store itself needs is there

    def none(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    assert len(app.enqueue_many([work.call(n=n) for n in range(2500)])) == 2500


def test_a_bulk_whose_calls_fail_half_way_says_what_got_in(app: App) -> None:
    @app.task
    def work(n: int) -> None: ...

    def calls(error: Exception) -> Iterator[Call]:
        yield from (work.call(n=n) for n in range(1500))
        raise error

    with pytest.raises(PayloadInvalid) as caught:
        app.enqueue_many(calls(PayloadInvalid("n is odd", field="n")))
    assert len(caught.value.accepted) == 1000
    with pytest.raises(ZeroDivisionError):
        app.enqueue_many(calls(ZeroDivisionError()))
    assert app.client.store.queues()[0].counts == {State.READY: 2000}


def test_nothing_is_handed_in_of_a_list_with_a_call_that_is_wrong(app: App, url: str) -> None:
    @app.task
    def work(n: int) -> None: ...

    other = App(url)
    calls = [work.call(n=n) for n in range(1500)]
    for task in (other.task(work.function), work.using(deadline=datetime.now(UTC))):
        with pytest.raises(InvalidOption):
            app.enqueue_many([*calls, task.call(n=0)])
    assert app.client.store.queues() == ()
    other.close()


def test_a_bulk_that_is_cut_short_says_what_got_in(url: str) -> None:
    app = App(url, queues={"small": QueueLimit(cap=1500)})

    @app.task(queue="small")
    def work(n: int) -> None: ...

    with pytest.raises(QueueFull) as caught:
        # There would be room for those after the chunk that is refused.
        app.enqueue_many([work.call(n=n) for n in range(2100)])
    assert len(caught.value.accepted) == 1000
    assert caught.value.accepted[0].state is State.READY
    assert app.client.store.queues()[0].counts == {State.READY: 1000}
    app.close()


def test_a_cap_that_waits_goes_on_as_soon_as_there_is_room(url: str) -> None:
    app = App(url, queues={"small": QueueLimit(cap=1, when_full="wait", patience="20s")})

    @app.task(queue="small")
    def work(n: int) -> None: ...

    work.enqueue(n=1)
    hand = Hand(app)
    waiting = threading.Thread(target=lambda: work.enqueue(n=2))
    waiting.start()
    time.sleep(0.05)
    assert waiting.is_alive()
    claimed = hand.exchange(room=1).claimed
    waiting.join(20)
    assert not waiting.is_alive()
    hand.exchange(Complete(claimed[0].lease), room=0)
    app.close()


def test_patience_with_a_full_queue_ends(url: str) -> None:
    app = App(url, queues={"small": QueueLimit(cap=1, when_full="wait", patience="0.1s")})

    @app.task(queue="small")
    def work() -> None: ...

    work.enqueue()
    with pytest.raises(QueueFull):
        work.enqueue()
    with pytest.raises(QueueFull):
        asyncio.run(work.aenqueue())
    app.close()
