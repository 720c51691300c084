"""Following a job: state, result, cancel, retry, and their async twins."""

import asyncio
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from client.hand import Hand

from limpet import (
    App,
    InvalidOption,
    JobCancelled,
    JobFailed,
    JobNotFound,
    MoveRefused,
    ResultTimeout,
    State,
)
from limpet.domain.cause import Raised
from limpet.domain.transition import Cancel, Complete, Fail


@dataclass
class Sent:
    to: str
    at: datetime


def test_a_result_comes_back_as_the_type_that_the_task_returns(app: App) -> None:
    @app.task
    def send(to: str) -> Sent:
        raise AssertionError

    job = send.enqueue(to="a@b.c")
    hand = Hand(app)
    at = datetime(2030, 1, 1, tzinfo=UTC)
    text = send.signature.pack_result(Sent("a@b.c", at))
    claimed = hand.exchange().claimed[0]
    hand.exchange(Complete(claimed.lease, text.args, text.secrets))
    assert job.result(timeout="5s") == Sent("a@b.c", at)
    assert job.state is State.SUCCEEDED
    assert app.job(job.id).result() == Sent("a@b.c", at)


def test_waiting_for_a_result_is_woken_and_does_not_poll(app: App) -> None:
    @app.task
    def work() -> int: ...  # type: ignore[empty-body]

    jobs = [work.enqueue() for _ in range(20)]
    hand = Hand(app)
    claimed = hand.exchange().claimed
    waits: list[float] = []
    settled_at: list[float] = []

    def wait(place: int) -> None:
        assert jobs[place].result(timeout="20s") == 7
        waits.append(time.monotonic())

    threads = [threading.Thread(target=wait, args=(place,)) for place in range(20)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    settled_at.append(time.monotonic())
    hand.exchange(*(Complete(job.lease, "7") for job in claimed))
    for thread in threads:
        thread.join()
    # The slow poll behind the bell comes once a second.
    assert max(waits) - settled_at[0] < 0.9


def test_async_twins_do_not_block_the_loop(app: App) -> None:
    @app.task
    async def work() -> int: ...  # type: ignore[empty-body]

    async def story() -> None:
        job = await work.aenqueue()
        with pytest.raises(ResultTimeout, match="is ready and not finished"):
            await job.aresult(timeout="50ms")
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        hand = Hand(app)
        claimed = hand.exchange().claimed[0]
        waiting = asyncio.create_task(job.aresult())
        await asyncio.sleep(0.2)
        hand.exchange(Complete(claimed.lease, "1"))
        assert await waiting == 1
        assert ticks > 5
        ticking.cancel()
        assert (await job.arefresh()).state is State.SUCCEEDED
        assert await job.aretry() is State.READY
        assert await job.acancel("enough") is State.CANCELLED

    asyncio.run(story())


def test_a_failed_job_raises_its_cause(app: App) -> None:
    @app.task
    def work() -> None: ...

    job = work.enqueue()
    hand = Hand(app)
    hand.exchange(Fail(hand.exchange().claimed[0].lease, Raised("ValueError", "no such row")))
    with pytest.raises(JobFailed, match="ValueError: no such row") as caught:
        job.result(timeout="5s")
    assert isinstance(caught.value.cause, Raised)


def test_cancelling_a_waiting_job_ends_it_and_a_running_one_is_asked(app: App) -> None:
    @app.task
    def work() -> None: ...

    waiting, running = work.using(delay="1h").enqueue(), work.enqueue()
    assert waiting.cancel() is State.CANCELLED
    hand = Hand(app)
    claimed = hand.exchange().claimed[0]
    assert running.cancel("not needed") is State.RUNNING
    renewed = hand.store.renew(hand.session)
    assert [lease.job for lease in renewed.cancels] == [running.id]
    hand.exchange(Cancel(claimed.lease))
    with pytest.raises(JobCancelled):
        running.result(timeout="5s")


def test_a_finished_job_can_be_run_again_under_its_id(app: App) -> None:
    @app.task
    def work() -> int: ...  # type: ignore[empty-body]

    job = work.enqueue()
    with pytest.raises(MoveRefused, match="only a finished job can be retried"):
        job.retry()
    hand = Hand(app)
    hand.exchange(Complete(hand.exchange().claimed[0].lease, "1"), room=0)
    assert job.retry() is State.READY
    again = hand.exchange().claimed[0]
    assert (again.lease.job, again.lease.token, again.round) == (job.id, 2, 2)
    hand.exchange(Complete(again.lease, "2"))
    assert job.result(timeout="5s") == 2


def test_an_unknown_id_is_told(app: App) -> None:
    @app.task
    def work() -> None: ...

    work.enqueue()
    with pytest.raises(InvalidOption, match="not the id of a job"):
        app.job("nonsense")
    with pytest.raises(JobNotFound):
        app.job("0" * 26)


def test_a_handle_says_what_it_is(app: App) -> None:
    @app.task
    def work() -> None: ...

    job = work.enqueue()
    assert repr(job) == f"<JobHandle {job.id} work ready>"
    assert "work on queue default" in repr(work)
