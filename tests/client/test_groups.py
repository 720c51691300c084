"""Chains, groups and batches, and the async twins of all."""

import asyncio

import pytest
from client.families import Work, jobs_there, run_all
from client.hand import Hand

from limpet import App, GroupHandle, JobCancelled, ResultTimeout, State
from limpet.domain.cause import Raised
from limpet.domain.transition import Complete, Fail


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
