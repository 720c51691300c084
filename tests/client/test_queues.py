"""What an app says of queues and keys: declared, and at run time."""

import asyncio
from datetime import timedelta
from pathlib import Path

import apsw
import pytest
from client.hand import Hand

from limpet import App, InvalidOption, QueueDraining, QueueLimit, State, Task
from limpet.domain.queue import QueueRules, QueueView
from limpet.domain.rate import rate_of
from limpet.domain.transition import Complete

Work = Task[[], None]


@pytest.fixture
def work(app: App) -> Work:
    @app.task(queue="email")
    def work() -> None: ...

    return work


def view(app: App, queue: str = "email") -> QueueView:
    return next(each for each in app.client.store.queues() if each.name == queue)


def test_what_an_app_declares_is_there_for_its_workers(url: str) -> None:
    kept = {"succeeded": "1h"}
    app = App(
        url,
        queues={
            "email": QueueLimit(concurrency=5, rate="100/m bursty", weight=3, retention=kept),
            "video": QueueLimit(cap=10),
        },
    )
    assert app.registry.queue_rules == {
        "email": QueueRules(5, rate_of("100/m", bursty=True), 3),
        "video": QueueRules(),
    }
    assert app.registry.queue_retention == {"email": {State.SUCCEEDED: timedelta(hours=1)}}
    app.close()


def test_a_limit_that_is_taken_out_of_the_code_holds_no_longer(url: str) -> None:
    """A queue that is still named is told to the store without its old limits."""
    for limit in (QueueLimit(rate="1/h"), QueueLimit()):
        app = App(url, queues={"email": limit})
        app.task(name="work", queue="email")(lambda: None).enqueue()
        app.client.store.declare_queues(app.registry.queue_rules)
        rules = view(app).rules
        app.close()
    assert rules == QueueRules()


def test_what_is_no_queue_limit_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match=r"queue 'email' is 5; write limpet.QueueLimit\(…\)"):
        App(url, queues={"email": 5})  # type: ignore[dict-item]


def test_a_queue_without_a_cap_takes_whatever_comes(url: str) -> None:
    app = App(url, queues={"email": QueueLimit(weight=2)})

    @app.task(queue="email")
    def work() -> None: ...

    work.enqueue()
    assert len(app.enqueue_many([work.call()] * 3)) == 3
    app.close()


def test_a_queue_is_limited_at_run_time_and_freed_again(app: App, work: Work) -> None:
    work.enqueue()
    app.client.store.declare_queues({"email": QueueRules(concurrency=9, weight=2)})
    app.queues.limit("email", concurrency=1)
    app.queues.limit("email", rate="10/s")
    assert view(app).rules == QueueRules(1, rate_of("10/s"), 2)
    assert view(app).adjusted == QueueRules(1, rate_of("10/s"))
    app.queues.unlimit("email")
    assert view(app).rules == QueueRules(9, None, 2)


def test_a_queue_is_paused_and_resumed(app: App, work: Work) -> None:
    work.enqueue()
    hand = Hand(app)
    app.queues.pause("email")
    assert view(app).paused
    assert hand.exchange().claimed == ()
    app.queues.resume("email")
    assert not view(app).paused
    (claimed,) = hand.exchange().claimed
    hand.exchange(Complete(claimed.lease), room=0)


def test_a_queue_that_is_held_gives_no_jobs_for_that_time(app: App, work: Work) -> None:
    work.enqueue()
    hand = Hand(app)
    now = app.client.clock.wall()
    app.queues.hold("email", "1h")
    held_until = view(app).held_until
    assert held_until is not None
    assert 0 <= held_until - now - 3_600_000_000 < 60_000_000
    assert hand.exchange().claimed == ()
    app.queues.hold("email", 0)
    assert view(app).held_until is None
    (claimed,) = hand.exchange().claimed
    hand.exchange(Complete(claimed.lease), room=0)


def test_a_queue_that_is_drained_refuses_with_a_sentence(
    app: App, work: Work, tmp_path: Path
) -> None:
    there = work.enqueue()
    app.queues.drain("email")
    own = apsw.Connection(str(tmp_path / "jobs.db"))
    own.execute("BEGIN IMMEDIATE")
    with pytest.raises(QueueDraining, match="'email' is being drained"):
        work.enqueue(within=own)  # type: ignore[call-arg]
    own.execute("ROLLBACK")
    own.close()
    elsewhere = work.using(queue="other")
    with pytest.raises(QueueDraining):
        work.enqueue()
    with pytest.raises(QueueDraining):
        asyncio.run(work.aenqueue())
    with pytest.raises(QueueDraining):
        app.enqueue_many([elsewhere.call(), work.call()])
    with pytest.raises(QueueDraining):
        app.group([elsewhere.call(), work.call()])
    assert [(each.name, each.counts) for each in app.client.store.queues()] == [
        ("email", {State.READY: 1})
    ]
    hand = Hand(app)
    (claimed,) = hand.exchange().claimed
    assert claimed.lease.job == there.id
    hand.exchange(Complete(claimed.lease), room=0)
    app.queues.resume("email")
    assert work.enqueue().state is State.READY


def test_jobs_of_one_key_take_turns_and_the_key_is_limited_at_run_time(
    app: App, work: Work
) -> None:
    mine = work.using(key="customer:42")
    first, second, third = mine.enqueue(), mine.enqueue(), mine.enqueue()
    assert (first.state, second.state) == (State.READY, State.BLOCKED)
    assert second.details.blocked_by == "waits for its turn of key customer:42"
    app.keys.limit("customer:42", limit=2)
    assert [job.refresh().state for job in (first, second, third)] == [
        State.READY,
        State.READY,
        State.BLOCKED,
    ]
    app.keys.unlimit("customer:42")
    assert work.using(key="customer:43", key_limit=2).enqueue().state is State.READY


@pytest.mark.parametrize(
    ("say", "words"),
    [
        (lambda app: app.queues.limit("email"), "say what to limit"),
        (lambda app: app.queues.limit("email", concurrency=0), "queue 'email': concurrency is 0"),
        (lambda app: app.queues.limit("e mail", weight=1), "queue 'e mail'"),
        (lambda app: app.queues.pause("e mail"), "queue 'e mail'"),
        (lambda app: app.queues.hold("email", "soon"), "hold the queue is 'soon'"),
        (lambda app: app.queues.drain(""), "queue ''"),
        (lambda app: app.queues.resume(""), "queue ''"),
        (lambda app: app.queues.unlimit(""), "queue ''"),
        (lambda app: app.keys.limit("a"), "limits nothing"),
        (lambda app: app.keys.limit("", limit=1), "key is ''"),
        (lambda app: app.keys.limit("a", limit=0), "limit of a key is 0"),
        (lambda app: app.keys.limit("a", rate="1"), "rate is '1'"),
        (lambda app: app.keys.unlimit(""), "key is ''"),
    ],
)
def test_what_makes_no_sense_is_refused(app: App, say, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidOption, match=words):
        say(app)


def test_a_key_limit_without_a_key_is_refused_by_every_way_in(app: App, work: Work) -> None:
    limited = work.using(key_limit=2)
    for hand_in in (
        limited.enqueue,
        lambda: asyncio.run(limited.aenqueue()),
        lambda: app.enqueue_many([work.call(), limited.call()]),
    ):
        with pytest.raises(InvalidOption, match="work: key_limit is 2, but the job has no key"):
            hand_in()
    assert app.client.store.queues() == ()
