"""What once went wrong, and must not again; each test failed before its fix."""

import asyncio
import os
import pickle
import threading
import time
from pathlib import Path

import apsw
import pytest
from client.hand import Hand
from machine import crowded

from limpet import App, JobFailed, QueueFull, QueueLimit, State, StoreUnavailable
from limpet.domain.cause import Raised, WorkerVanished
from limpet.domain.errors import LeaseLost, LimpetError, SchemaMismatch
from limpet.domain.transition import Complete, Fail
from limpet.storage.contract.bell import Topic


def test_threads_that_fork_at_once_do_not_block_each_other(app: App) -> None:
    @app.task
    def work() -> None: ...

    def fork_some() -> None:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)

    threads = [threading.Thread(target=fork_some, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        work.enqueue()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert work.enqueue().state is State.READY


def test_bells_that_come_and_go_hold_nobody_up() -> None:
    app = App("sqlite://")

    @app.task
    def work() -> None: ...

    stop = threading.Event()

    def open_and_close() -> None:
        while not stop.is_set():
            app.client.store.listen(Topic.READY).close()

    threads = [threading.Thread(target=open_and_close) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        work.enqueue()
    stop.set()
    for thread in threads:
        thread.join()
    app.close()


def test_a_result_that_is_there_is_returned_at_once_while_others_wait(app: App) -> None:
    @app.task
    def work() -> int: ...  # type: ignore[empty-body]

    slow, done = work.enqueue(), work.enqueue()
    hand = Hand(app)
    leases = {job.lease.job: job.lease for job in hand.exchange().claimed}
    waiting = threading.Thread(target=lambda: slow.result("20s"))
    waiting.start()
    hand.exchange(Complete(leases[done.id], "1"), room=0)
    time.sleep(0.2)
    for _ in range(5):
        began = time.monotonic()
        assert done.result("20s") == 1
        assert time.monotonic() - began < 0.5 * crowded()
    hand.exchange(Complete(leases[slow.id], "1"), room=0)
    waiting.join()


def test_waiting_on_a_store_that_was_closed_is_an_error_and_not_for_ever(url: str) -> None:
    app = App(url)

    @app.task
    def work() -> None: ...

    job = work.enqueue()
    said: list[BaseException] = []

    def wait() -> None:
        try:
            job.result()
        except LimpetError as error:
            said.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.1)
    app.close()
    waiting.join(20)
    assert not waiting.is_alive()
    assert isinstance(said[0], StoreUnavailable)
    with pytest.raises(StoreUnavailable, match="closed by this program"):
        job.refresh()


def test_a_result_is_never_that_of_a_round_that_has_not_ended(app: App) -> None:
    @app.task
    def work() -> int: ...  # type: ignore[empty-body]

    job = work.enqueue()
    hand = Hand(app)
    hand.exchange(Fail(hand.exchange().claimed[0].lease, Raised("ValueError", "no")), room=0)
    real = app.client.store.job
    looks = 0

    def retried_just_now(id: str):  # type: ignore[no-untyped-def]
        nonlocal looks
        looks += 1
        if looks == 1:
            app.client.store.retry(id, 1)
        return real(id)

    app.client.store.job = retried_just_now  # type: ignore[method-assign,assignment]
    second = threading.Timer(
        0.3, lambda: hand.exchange(Complete(hand.exchange().claimed[0].lease, "2"), room=0)
    )
    second.start()
    assert job.result("20s") == 2
    second.join()


def test_within_obeys_the_cap_and_the_version(url: str, tmp_path: Path) -> None:
    app = App(url, queues={"default": QueueLimit(cap=1)})

    @app.task
    def work() -> None: ...

    work.enqueue()
    own = apsw.Connection(str(tmp_path / "jobs.db"))
    own.execute("BEGIN IMMEDIATE")
    with pytest.raises(QueueFull, match="1 job is waiting and its cap is 1"):
        work.using(within=own).enqueue()
    own.execute("UPDATE limpet_store SET oldest_allowed = 99, newest_allowed = 99")
    with pytest.raises(SchemaMismatch, match="newer Limpet"):
        work.using(within=own).enqueue()
    own.execute("ROLLBACK")
    own.close()
    app.close()


def test_a_bulk_that_can_never_fit_is_refused_at_once(url: str) -> None:
    app = App(url, queues={"default": QueueLimit(cap=2, when_full="wait", patience="20s")})

    @app.task
    def work() -> None: ...

    began = time.monotonic()
    with pytest.raises(QueueFull, match="can never take 3 at once"):
        app.enqueue_many([work.call() for _ in range(3)])
    assert time.monotonic() - began < 5
    app.close()


@pytest.mark.parametrize(
    "error",
    [
        JobFailed("x", WorkerVanished(last_seen=1)),
        QueueFull("q", 1, 2),
        LeaseLost("j", "s", 3),
        Raised("ValueError", "no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_the_way_between_processes(error: LimpetError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


def test_a_coroutine_cancelled_before_its_write_began_enqueues_nothing(app: App) -> None:
    @app.task
    async def work(n: int) -> None: ...

    gate = threading.Event()
    real = app.client.store.enqueue

    def slow(jobs, **options):  # type: ignore[no-untyped-def]
        gate.wait(20)
        return real(jobs, **options)

    app.client.store.enqueue = slow  # type: ignore[method-assign]

    async def story() -> None:
        first = asyncio.create_task(work.aenqueue(n=1))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(work.aenqueue(n=2))
        await asyncio.sleep(0.1)
        second.cancel()
        await asyncio.sleep(0)
        gate.set()
        await first
        await work.aenqueue(n=3)

    asyncio.run(story())
    assert app.client.store.queues()[0].counts == {State.READY: 2}
