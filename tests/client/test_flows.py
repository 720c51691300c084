"""Flows: handed in at one moment, followed by their handles."""

import asyncio

import pytest
from client.families import Work, run_all
from client.hand import Hand

from limpet import App, Child, Flow, JobCancelled, JobFailed, State
from limpet.app.flows import Failed, FlowLayout, as_children
from limpet.domain.cause import ChildFailed, ParentGone, Raised
from limpet.domain.rules import ChildFailure
from limpet.domain.transition import AwaitChildren, Complete, Fail


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
    more = FlowLayout(app, as_children([work.call(2)]), parent=parent.id, root=parent.id).jobs
    hand.store.stage("more", 0, more)
    assert hand.exchange(AwaitChildren(claimed.lease, "more", 1, 1), room=0).rejected == ()
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
    rows = FlowLayout(app, [Child(whole)]).jobs
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
    rows = FlowLayout(app, as_children([work.call(1)], "keep"), parent="p", root="r").jobs
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
