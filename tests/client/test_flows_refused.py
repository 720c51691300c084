"""Flows that cannot be, or that there is no room for: nothing of them is written."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest
from client.families import Work, jobs_there

from limpet import (
    App,
    Flow,
    GroupHandle,
    InvalidOption,
    JobHandle,
    QueueDraining,
    QueueFull,
    QueueLimit,
)
from limpet.domain.job import NewJob


def test_what_cannot_be_a_flow_is_refused_and_nothing_is_written(
    app: App, url: str, work: Work, total: Work
) -> None:
    other = App(url)
    foreign = other.task(name="foreign")(lambda: None)
    twice = Flow(total.call(1), [work.call(1)])
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: app.flow(total.call(9), [foreign.call()]), "belongs to another app"),
        (lambda: app.flow(total.call(9), [twice, twice]), "is in the flow twice"),
        (lambda: app.flow(total.call(9), [Flow(total.call(1), [twice]), twice]), "flow twice"),
        (lambda: app.group([twice, twice]), "flow twice"),
        (lambda: app.flow(work.using(within=object()).call(1)), "within="),
        (lambda: app.flow(total.call(9), [work.using(unique="a").call(1)]), "cannot be unique"),
        (lambda: app.group([work.using(unique="a").call(1)]), "cannot be unique"),
        (lambda: app.flow(total.using(delay="1m").call(9), [work.call(1)]), "give the delay"),
        (lambda: app.flow(total.call(9), [work.using(key_limit=2).call(1)]), "has no key"),
        (lambda: app.flow(total.call(9), [work]), "use task.call"),  # type: ignore[list-item]
        (lambda: app.flow(work), "use task.call"),  # type: ignore[arg-type]
        (lambda: app.flow(total.call(9), work.call(1)), "write a list"),  # type: ignore[arg-type]
        (lambda: app.flow(twice, [work.call(1)]), "has children already"),
        (lambda: app.flow(total.call(9), [work.call(1)], failed="drop"), "failed is 'drop'"),  # type: ignore[arg-type]
        (app.chain, "at least one call"),
        (lambda: app.chain(work.call(1), twice), "made of calls"),  # type: ignore[arg-type]
    ]
    for hand_in, words in wrong:
        with pytest.raises(InvalidOption, match=words):
            hand_in()
    assert jobs_there(app) == 0
    other.close()


def test_one_call_twice_is_two_jobs(app: App, work: Work, total: Work) -> None:
    call = work.call(1)
    assert len({job.id for job in app.flow(total.call(9), [call] * 3).children}) == 3


def test_a_flow_that_does_not_fit_the_cap_is_refused_as_a_whole(url: str) -> None:
    app = App(url, queues={"small": QueueLimit(cap=1200), "tiny": QueueLimit(cap=2)})

    @app.task(queue="small")
    def work(n: int) -> int:
        return n

    tiny = work.using(queue="tiny")
    tiny.enqueue(0)
    with pytest.raises(QueueFull, match="'tiny' is full"):
        app.flow(work.call(9), [work.call(1), tiny.call(2), tiny.call(3)])
    with pytest.raises(QueueFull, match="can never take 3 at once"):
        app.flow(work.call(9), [tiny.call(n) for n in range(3)])
    with pytest.raises(QueueFull, match="can never take 1201 at once"):
        app.flow(work.call(9), [work.call(n) for n in range(1200)])
    work.enqueue(0)
    staged: list[str] = []
    app.client.store.stage = lambda flow, place, jobs: staged.append(flow)  # type: ignore[method-assign]
    with pytest.raises(QueueFull, match="'small' has no room for 1200 more: 1 job is waiting"):
        app.flow(work.call(9), [work.call(n) for n in range(1199)])
    assert staged == []
    assert jobs_there(app) == 2
    app.close()


def test_a_flow_that_is_staged_waits_for_room_where_the_queue_says_so(url: str) -> None:
    app = App(url, queues={"default": QueueLimit(cap=1500, when_full="wait", patience="20s")})

    @app.task
    def work(n: int) -> int:
        return n

    first = work.enqueue(0)
    made: list[GroupHandle] = []
    waiting = threading.Thread(
        target=lambda: made.append(app.group(work.call(n) for n in range(1500)))
    )
    waiting.start()
    time.sleep(0.2)
    assert jobs_there(app) == 1
    first.cancel()
    waiting.join(20)
    assert len(made[0]) == 1500
    app.close()


@pytest.mark.parametrize("when_full", ["refuse", "wait"])
def test_a_flow_whose_room_was_taken_while_it_was_staged_is_refused_or_waits(
    url: str, when_full: Literal["refuse", "wait"]
) -> None:
    limit = QueueLimit(cap=1500, when_full=when_full, patience="20s")
    app = App(url, queues={"default": limit})

    @app.task
    def work(n: int) -> int:
        return n

    store = app.client.store
    store.migrate()
    stage = store.stage
    faster: list[JobHandle[int]] = []

    later = threading.Timer(0.5, lambda: [job.cancel() for job in faster])

    def staging(flow: str, place: int, jobs: Sequence[NewJob]) -> None:
        if not faster:
            faster.append(work.enqueue(0))
            later.start()
        stage(flow, place, jobs)

    store.stage = staging  # type: ignore[method-assign]
    calls = [work.call(n) for n in range(1500)]
    if when_full == "refuse":
        with pytest.raises(QueueFull, match="has no room for 1500 more: 1 job is waiting"):
            app.group(calls)
        assert jobs_there(app) == 1
    else:
        assert len(app.group(calls)) == 1500
    later.cancel()
    later.join()
    app.close()


def test_a_drained_queue_takes_in_no_flow(app: App, work: Work, total: Work) -> None:
    total.enqueue(0)
    app.queues.drain("sums")
    for size in (2, 1500):
        with pytest.raises(QueueDraining, match="'sums' is being drained"):
            app.flow(total.call(9), [work.call(n) for n in range(size)])
    assert jobs_there(app) == 1
