"""Flows, chains, groups and batches: handed in at one moment, followed by their handles."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import pytest
from client.hand import Hand

from limpet import (
    App,
    Child,
    Flow,
    GroupHandle,
    InvalidOption,
    JobCancelled,
    JobFailed,
    JobHandle,
    QueueDraining,
    QueueFull,
    QueueLimit,
    ResultTimeout,
    State,
    Task,
)
from limpet.client.client import Client
from limpet.domain.cause import ChildFailed, ParentGone, Raised
from limpet.domain.errors import StoreUnreachable
from limpet.domain.job import NewJob
from limpet.domain.rules import ChildFailure
from limpet.domain.transition import Complete, Fail, FanOut
from limpet.flow import Failed, Layout, each_a_child

Work = Task[[int], int]


@pytest.fixture
def work(app: App) -> Work:
    @app.task
    def work(n: int) -> int:
        return n

    return work


@pytest.fixture
def total(app: App) -> Work:
    @app.task(queue="sums")
    def total(n: int) -> int:
        return n

    return total


def run_all(hand: Hand) -> list[str]:
    """Complete whatever can be claimed, until there is nothing; the answer is the order."""
    order: list[str] = []
    settlements: list[Complete] = []
    while True:
        claimed = hand.exchange(*settlements, room=1000).claimed
        if not claimed:
            return order
        order += [job.lease.job for job in claimed]
        settlements = [Complete(job.lease, job.args[len('{"n":') : -1]) for job in claimed]


def jobs_there(app: App) -> int:
    views = app.client.store.queues()
    return sum(sum(view.counts.values()) for view in views)


def test_a_parent_runs_after_its_children(app: App, work: Work, total: Work) -> None:
    parent = app.flow(total.call(9), children=[work.call(1), work.call(2)])
    assert parent.state is State.BLOCKED
    assert [child.state for child in parent.children] == [State.READY] * 2
    hand = Hand(app)
    assert run_all(hand) == [*(child.id for child in parent.children), parent.id]
    assert parent.result("5s") == 9
    assert [child.result("5s") for child in parent.children] == [1, 2]


def test_a_handle_found_by_its_id_knows_parent_and_children(
    app: App, work: Work, total: Work
) -> None:
    parent = app.flow(total.call(9), children=[work.call(n) for n in range(3)])
    found = app.job(parent.id)
    assert [child.id for child in found.children] == [child.id for child in parent.children]
    assert [child.task for child in found.children] == ["work"] * 3
    assert found.parent is None
    assert found.children[0].children == ()
    above = app.job(parent.children[0].id).parent
    assert above is not None
    assert above.id == parent.id
    assert [child.id for child in asyncio.run(app.job(parent.id).achildren())] == [
        child.id for child in parent.children
    ]


def test_a_job_that_fans_out_has_more_children_when_looked_at_again(
    app: App, work: Work, total: Work
) -> None:
    parent = app.flow(total.call(9), children=[work.call(1)])
    hand = Hand(app)
    (child,) = hand.exchange().claimed
    (claimed,) = hand.exchange(Complete(child.lease, "1")).claimed
    more = Layout(app, each_a_child([work.call(2)]), parent=parent.id, root=parent.id).jobs
    hand.store.stage("more", 0, more)
    assert hand.exchange(FanOut(claimed.lease, "more", 1, 1), room=0).rejected == ()
    while hand.store.promote().more:
        pass
    assert len(parent.children) == 1
    assert [child.id for child in parent.refresh().children][1:] == [more[0].id]
    run_all(hand)
    assert parent.result("5s") == 9


def test_flows_are_nested_and_everybody_knows_the_root(app: App, work: Work, total: Work) -> None:
    inner = Flow(total.call(5), [work.call(1), work.call(2)])
    root = app.flow(total.call(9), children=[inner, work.call(3)])
    middle, leaf = root.children
    assert (root.state, middle.state, leaf.state) == (State.BLOCKED, State.BLOCKED, State.READY)
    everybody = [root, middle, leaf, *middle.children]
    assert {job.details.root for job in everybody} == {root.id}
    assert [job.details.parent for job in everybody] == [
        None,
        root.id,
        root.id,
        middle.id,
        middle.id,
    ]
    order = run_all(Hand(app))
    assert sorted(order) == sorted(job.id for job in everybody)
    assert order.index(middle.id) < order.index(root.id) == 4


def test_the_rows_of_a_flow_name_parents_first_and_what_a_failure_does(
    app: App, work: Work, total: Work
) -> None:
    inner = Flow(total.call(1), [work.call(2), Child(work.call(3), failed="fail")], failed="skip")
    whole = Flow(total.call(0), [Child(inner, failed="keep"), work.call(4)])
    rows = Layout(app, [Child(whole)]).jobs
    assert [row.args for row in rows] == [f'{{"n":{n}}}' for n in (0, 1, 4, 2, 3)]
    root, middle, last, *leaves = rows
    assert [row.id for row in rows] == sorted(row.id for row in rows)
    assert (root.parent, middle.parent, last.parent) == (None, root.id, root.id)
    assert {row.parent for row in leaves} == {middle.id}
    assert {row.root for row in rows} == {root.id}
    assert root.rules is not None
    assert middle.rules is not None
    assert leaves[0].rules is not None
    assert (root.rules.children, middle.rules.children) == (2, 2)
    assert middle.rules.child_failure is ChildFailure.KEEP
    assert leaves[0].rules.child_failure is ChildFailure.SKIP
    assert leaves[1].rules is None
    assert last.rules is None


def test_the_rows_of_a_fan_out_belong_to_the_job_that_is_there(app: App, work: Work) -> None:
    rows = Layout(app, each_a_child([work.call(1)], "keep"), parent="p", root="r").jobs
    assert [(row.parent, row.root) for row in rows] == [("p", "r")]


def test_options_of_a_call_hold_in_a_flow(app: App, work: Work, total: Work) -> None:
    later = work.using(delay="1h", key="a", key_limit=2, priority=3)
    parent = app.flow(total.using(key="b").call(9), children=[later.call(1)])
    child = parent.children[0].details
    assert (child.key, child.rules.key_limit, child.priority) == ("a", 2, 3)
    assert child.state is State.SCHEDULED
    assert (parent.details.key, parent.details.pending) == ("b", 1)


@pytest.mark.parametrize("how", ["fail", "skip", "keep"])
def test_what_a_failed_child_does_is_a_choice(
    app: App, work: Work, total: Work, how: Failed
) -> None:
    parent = app.flow(total.call(9), children=[Child(work.call(1), failed=how), work.call(2)])
    hand = Hand(app)
    first, second = hand.exchange().claimed
    hand.exchange(Fail(first.lease, Raised("ValueError", "no")), Complete(second.lease, "2"))
    if how == "fail":
        with pytest.raises(JobFailed) as caught:
            parent.result("5s")
        assert isinstance(caught.value.cause, ChildFailed)
        assert caught.value.cause.job == parent.children[0].id
    else:
        assert parent.refresh().state is State.RUNNING


def test_cancelling_a_parent_cancels_its_children(app: App, work: Work, total: Work) -> None:
    inner = Flow(total.call(5), [work.call(1)])
    root = app.flow(total.call(9), children=[inner])
    assert root.cancel("not wanted") is State.CANCELLED
    (middle,) = root.children
    for job in (middle, *middle.children):
        with pytest.raises(JobCancelled) as caught:
            job.result("5s")
        assert isinstance(caught.value.cause, ParentGone)


def test_a_chain_runs_one_after_the_other(app: App, work: Work) -> None:
    last = app.chain(work.call(1), work.call(2), work.call(3))
    second = last.children[0]
    first = second.children[0]
    assert run_all(Hand(app)) == [first.id, second.id, last.id]
    assert (first.result("5s"), second.result("5s"), last.result("5s")) == (1, 2, 3)
    assert first.children == ()


def test_a_chain_of_one_is_a_job_and_a_long_one_no_recursion(app: App, work: Work) -> None:
    assert app.chain(work.call(1)).state is State.READY
    link = app.chain(*(work.call(n) for n in range(1500)))
    depth = 1
    while link.children:
        (link,) = link.children
        depth += 1
    assert depth == 1500
    assert link.state is State.READY


def test_a_group_is_followed_together(app: App, work: Work) -> None:
    group = app.group(work.call(n) for n in range(5))
    assert isinstance(group, GroupHandle)
    assert len(group) == 5
    assert all(job.details.parent is None and job.details.root is None for job in group)
    with pytest.raises(ResultTimeout):
        group.results(timeout="0.05s")
    run_all(Hand(app))
    assert group.results("5s") == [0, 1, 2, 3, 4]
    assert asyncio.run(group.aresults("5s")) == [0, 1, 2, 3, 4]


def test_a_group_is_cancelled_together(app: App, work: Work) -> None:
    assert app.group(work.call(n) for n in range(3)).cancel() == [State.CANCELLED] * 3
    group = app.group(work.call(n) for n in range(3))
    assert asyncio.run(group.acancel("why")) == [State.CANCELLED] * 3
    with pytest.raises(JobCancelled, match="why"):
        group.results("5s")


def test_a_batch_calls_back_whatever_became_of_it(app: App, work: Work, total: Work) -> None:
    done = app.batch([work.call(1), work.call(2)], then=total.call(9))
    hand = Hand(app)
    first, second = hand.exchange().claimed
    hand.exchange(Complete(first.lease), room=0)
    last = hand.exchange(Fail(second.lease, Raised("ValueError", "no"))).claimed
    assert [job.lease.job for job in last] == [done.id]
    hand.exchange(Complete(last[0].lease, "9"))
    assert done.result("5s") == 9


def test_nothing_to_wait_for_is_no_wait(app: App, work: Work) -> None:
    assert app.flow(work.call(1)).state is State.READY
    assert app.batch([], then=work.call(2)).state is State.READY
    assert app.group([]).results() == []
    assert jobs_there(app) == 2


def test_async_twins_hand_in_the_same(app: App, work: Work, total: Work) -> None:
    async def story() -> None:
        flow = await app.aflow(total.call(9), children=[work.call(1)])
        batch = await app.abatch([work.call(1)], then=total.call(9))
        chain = await app.achain(work.call(1), work.call(2))
        group = await app.agroup([work.call(1)])
        assert [len(each.children) for each in (flow, batch, chain)] == [1, 1, 1]
        assert len(group) == 1

    asyncio.run(story())
    assert jobs_there(app) == 7


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
        (lambda: app.flow(twice, [work.call(1)]), "has its children already"),
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
    with pytest.raises(QueueFull, match="'small' has no room for 1200 more: 1 jobs are waiting"):
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

    def staging(flow: str, place: int, jobs: Sequence[NewJob]) -> None:
        if not faster:
            faster.append(work.enqueue(0))
        stage(flow, place, jobs)

    store.stage = staging  # type: ignore[method-assign]
    calls = [work.call(n) for n in range(1500)]
    if when_full == "refuse":
        with pytest.raises(QueueFull, match="has no room for 1500 more: 1 jobs are waiting"):
            app.group(calls)
        assert jobs_there(app) == 1
    else:
        later = threading.Timer(0.5, lambda: [job.cancel() for job in faster])
        later.start()
        assert len(app.group(calls)) == 1500
        later.join()
    app.close()


def test_a_drained_queue_takes_in_no_flow(app: App, work: Work, total: Work) -> None:
    total.enqueue(0)
    app.queues.drain("sums")
    for size in (2, 1500):
        with pytest.raises(QueueDraining, match="'sums' is being drained"):
            app.flow(total.call(9), [work.call(n) for n in range(size)])
    assert jobs_there(app) == 1


def test_a_flow_of_10_000_children_is_one_atomic_call(app: App, work: Work, total: Work) -> None:
    store = app.client.store
    seen_before_the_commit: list[int] = []
    commit = store.commit

    def committing(flow: str, chunks: int, caps: Mapping[str, int] | None) -> bool:
        seen_before_the_commit.append(jobs_there(app))
        assert commit(flow, chunks, caps=caps) is True
        return commit(flow, chunks, caps=caps)  # the reply was lost, so it is said again

    store.commit = committing  # type: ignore[method-assign, assignment]
    parent = app.flow(total.call(9), [work.call(n) for n in range(10_000)])
    assert seen_before_the_commit == [0]
    assert jobs_there(app) == 10_001
    assert parent.state is State.BLOCKED
    assert parent.details.pending == 10_000
    assert len(parent.children) == 10_000
    found = app.job(parent.id).children
    assert [job.id for job in found] == [job.id for job in parent.children]
    assert [job.details.args for job in found[::2500]] == [
        f'{{"n":{n}}}' for n in range(0, 10_000, 2500)
    ]
    assert run_all(Hand(app))[-1] == parent.id
    assert parent.result("5s") == 9


def test_a_group_of_any_size_is_handed_in_at_one_moment(app: App, work: Work) -> None:
    group = app.group(work.call(n) for n in range(2500))
    assert [job.state for job in group.jobs] == [State.READY] * 2500


def test_a_large_flow_is_said_again_while_the_store_does_not_answer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(url, store_patience="20s")

    @app.task
    def work(n: int) -> int:
        return n

    store = app.client.store
    store.migrate()
    for verb in ("stage", "commit"):
        real = getattr(store, verb)
        monkeypatch.setattr(store, verb, _answered_the_second_time(real))
    assert len(app.group(work.call(n) for n in range(2500))) == 2500
    assert jobs_there(app) == 2500
    app.close()


def _answered_the_second_time(verb: Callable[..., object]) -> Callable[..., object]:
    def asked(*args: object, **more: object) -> object:
        verb(*args, **more)
        if args not in before:
            before.append(args)
            raise StoreUnreachable("the answer was lost")
        return verb(*args, **more)

    before: list[object] = []
    return asked


def test_a_committed_flow_is_accepted_whatever_comes_after(app: App, work: Work) -> None:
    store = app.client.store
    promote = store.promote

    def gone() -> object:
        raise StoreUnreachable("gone")

    store.promote = gone  # type: ignore[method-assign, assignment]
    group = app.group(work.call(n) for n in range(1500))
    assert jobs_there(app) == 0
    while promote().more:
        pass
    assert [job.state for job in group.jobs] == [State.READY] * 1500


def test_a_running_job_leaves_it_to_its_worker_to_write_out_a_large_flow(
    app: App, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = app.client.store
    rows = work.new_jobs([work.call(n).packed for n in range(1001)])
    promote, committed = store.promote, store.commit
    monkeypatch.delattr(type(store), "promote")

    def commit(flow: str, chunks: int, caps: Mapping[str, int] | None) -> bool:
        answer = committed(flow, chunks)
        while promote().more:
            pass
        return answer

    monkeypatch.setattr(store, "commit", commit)
    store.drain_queue("default")  # which still takes in what its running jobs ask for
    in_executor = Client(store, shares_writes=False)
    assert {each.outcome for each in in_executor.enqueue_whole(rows)} == {"new"}
    assert jobs_there(app) == 1001
