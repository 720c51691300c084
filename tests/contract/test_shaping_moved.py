"""A move takes along what shapes the work; turns and uniques are made anew from the jobs."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from contract.driver import (
    Holder,
    add,
    counts,
    get,
    new_id,
    new_job,
    promote_all,
    state,
    states,
    total,
    view,
)
from contract.everything import seen
from contract.families import KEEP, child
from contract.moving import ARRIVING, CLOSED, CLOSING, EMPTYING, MOVE, cargos, carry, step
from contract.shaped import FOR_A_DAY, Shaped

from limpet.domain.breaker import BreakerState
from limpet.domain.errors import FlowIncomplete, StoreMoved
from limpet.domain.queue import QueueRules
from limpet.domain.state import State
from limpet.domain.transition import AwaitChildren, Complete
from limpet.storage.contract.store import CHUNK, Store
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock

READY, BLOCKED = State.READY, State.BLOCKED


@pytest.fixture
def other(clock: FakeClock) -> Iterator[Store]:
    """The other side of a move."""
    with closing(open_store("sqlite://", clock)) as opened:
        yield opened
        assert opened.invariants() == ()


def test_what_shapes_the_work_arrives_as_it_was(
    store: Store, other: Store, clock: FakeClock
) -> None:
    Shaped(other, clock)
    carry(other, store)
    assert seen(store) == seen(other)
    assert store.manifest() == other.manifest()


def test_what_shapes_the_work_leaves_as_it_was(
    store: Store, other: Store, clock: FakeClock
) -> None:
    Shaped(store, clock)
    carry(store, other)
    assert seen(other) == seen(store)
    assert store.manifest() == other.manifest()


def test_a_manifest_lists_only_settings_that_differ_from_the_defaults(
    store: Store, clock: FakeClock
) -> None:
    assert store.manifest().settings == ()
    add(store, key="k")
    store.limit_key("k", 2)
    store.limit_key("k", None)
    store.limit_queue("default", QueueRules(concurrency=1))
    store.limit_queue("default", None)
    store.drain_queue("default")
    store.drain_queue("default", False)
    store.hold_queue("default", clock.wall() + 1)
    store.hold_queue("default", 0)
    assert store.manifest().settings == ()


def test_settings_name_queues_keys_and_breakers(store: Store, clock: FakeClock) -> None:
    Shaped(store, clock)
    named = [(kind, name) for kind, name, _ in store.manifest().settings]
    assert named == sorted(named)
    assert {("breaker", "api"), ("breaker", "crm"), ("key", "other"), ("key", "wide")} <= set(named)
    queues = {name for kind, name in named if kind == "queue"}
    assert queues == {"limited", "rated", "held", "drained"}


def test_turns_are_made_anew(store: Store, other: Store, clock: FakeClock) -> None:
    shaped = Shaped(other, clock)
    carry(other, store)
    holder = Holder(store, lease=timedelta(hours=1))
    first, second, third = shaped.keyed
    assert states(store, shaped.keyed) == [READY, BLOCKED, BLOCKED]
    newcomer = add(store, queue="keyed", key="busy", priority=1)
    order = []
    for _ in range(4):
        claimed = [each for each in holder.claim(10, {"keyed": 10}) if get(
            store, each.lease.job).key == "busy"]  # fmt: skip
        order += [each.lease.job for each in claimed]
        holder.settle(*(Complete(each.lease) for each in claimed))
    assert order == [first, third, second, newcomer]


def test_turn_of_a_strict_job_in_backoff_is_kept(
    store: Store, other: Store, clock: FakeClock
) -> None:
    shaped = Shaped(other, clock)
    carry(other, store)
    assert states(store, shaped.strict) == [State.SCHEDULED, BLOCKED]
    assert state(store, add(store, queue="strict", key="strict")) is BLOCKED
    clock.advance(timedelta(minutes=9))
    promote_all(store)
    assert states(store, shaped.strict) == [READY, BLOCKED]
    holder = Holder(store)
    holder.settle(Complete(holder.take_of("strict")))
    assert states(store, shaped.strict) == [State.SUCCEEDED, READY]


def test_rate_of_a_key_goes_on_where_it_was(store: Store, other: Store, clock: FakeClock) -> None:
    shaped = Shaped(other, clock)
    due = other.promote().next_due
    carry(other, store)
    assert store.promote().next_due == due
    assert states(store, shaped.slow) == [READY, BLOCKED]
    holder = Holder(store)
    slow = [each.lease for each in holder.claim(10, {"keyed": 10}) if each.lease.job ==
            shaped.slow[0]]  # fmt: skip
    holder.settle(*map(Complete, slow))
    assert states(store, shaped.slow) == [State.SUCCEEDED, BLOCKED]
    clock.advance(timedelta(hours=1))
    promote_all(store)
    assert state(store, shaped.slow[1]) is READY


def test_uniques_are_made_anew(store: Store, other: Store, clock: FakeClock) -> None:
    shaped = Shaped(other, clock)
    carry(other, store)
    jobs = [
        new_job(unique="waits"),
        new_job(unique="done", rules=FOR_A_DAY),
        new_job(unique="free"),
    ]
    assert [(each.outcome, each.job) for each in store.enqueue(jobs)] == [
        ("duplicate", shaped.waits),
        ("duplicate", shaped.done),
        ("new", jobs[2].id),
    ]


def test_parent_that_arrived_is_counted_down_and_takes_children_in(
    store: Store, other: Store, clock: FakeClock
) -> None:
    shaped = Shaped(other, clock)
    carry(other, store)
    assert (state(store, shaped.parent), get(store, shaped.parent).pending) == (BLOCKED, 2)
    assert [job.id for job in store.children(shaped.parent).jobs] == shaped.below
    assert state(store, shaped.gone) is State.FAILED
    assert state(store, shaped.deep) is State.CANCELLED
    holder = Holder(store)
    holder.settle(Complete(holder.take_of("below")))
    assert (state(store, shaped.parent), get(store, shaped.parent).pending) == (BLOCKED, 1)
    last = child(shaped.parent, KEEP, queue="below")
    assert store.enqueue([last])[0].outcome == "new"
    holder.settle(Complete(holder.take_of("below")))
    assert (state(store, shaped.parent), get(store, shaped.parent).pending) == (READY, 0)


def test_relaunch_that_arrived_comes_at_its_time(
    store: Store, other: Store, clock: FakeClock
) -> None:
    shaped = Shaped(other, clock)
    carry(other, store)
    clock.advance(timedelta(minutes=5))
    promote_all(store)
    assert (state(store, shaped.below[1]), get(store, shaped.below[1]).round) == (READY, 2)


def test_limits_that_arrived_are_kept(store: Store, other: Store, clock: FakeClock) -> None:
    Shaped(other, clock)
    carry(other, store)
    holder = Holder(store, lease=timedelta(hours=9))
    assert len(holder.claim(10, {"limited": 10})) == 1
    assert view(store, "limited").rules == QueueRules(1, None, 4)
    assert len(holder.claim(10, {"rated": 10})) == 1
    assert holder.claim(10, {"rated": 10}) == ()
    held = add(store, queue="held")
    assert holder.claim(10, {"held": 10}) == ()
    assert store.enqueue([new_job(queue="drained")])[0].outcome == "draining"
    clock.advance(timedelta(minutes=30))
    assert holder.claim_ids(10, {"held": 10}) == [held]
    store.limit_queue("limited", None)
    assert view(store, "limited").rules == QueueRules(3, None, 4)
    assert total(store, "count:emails", "done") == 42


def test_limit_of_a_key_that_arrived_is_kept(store: Store, other: Store, clock: FakeClock) -> None:
    shaped = Shaped(other, clock)
    carry(other, store)
    assert states(store, shaped.wide) == [READY, READY, BLOCKED]
    holder = Holder(store)
    wide = [each.lease for each in holder.claim(10, {"keyed": 10}) if each.lease.job in
            shaped.wide]  # fmt: skip
    holder.settle(Complete(wide[0]))
    assert state(store, shaped.wide[2]) is BLOCKED
    store.limit_key("wide", None)
    assert state(store, shaped.wide[2]) is READY


def test_breaker_that_arrived_is_still_open(store: Store, other: Store, clock: FakeClock) -> None:
    Shaped(other, clock)
    carry(other, store)
    assert store.breakers() == other.breakers()
    assert [each.state for each in store.breakers()] == [BreakerState.CLOSED, BreakerState.OPEN]
    add(store, "crm")
    free = add(store, "api")
    assert Holder(store, ["crm", "api"]).claim_ids(10, {"default": 10}) == [free]


def test_flow_that_is_staged_and_not_committed_stays_behind(store: Store, other: Store) -> None:
    flow = new_id()
    other.stage(flow, 0, [new_job()])
    carry(other, store)
    with pytest.raises(FlowIncomplete):
        store.commit(flow, 1)
    assert store.manifest().jobs == 0


def test_what_has_arrived_is_discarded_with_all_its_settings(
    store: Store, other: Store, clock: FakeClock
) -> None:
    Shaped(other, clock)
    step(store, None, ARRIVING)
    for each in cargos(other):
        store.adopt(MOVE, each)
    store.furnish(MOVE, other.manifest())
    step(store, ARRIVING, EMPTYING)
    while store.discard(MOVE):
        pass
    step(store, EMPTYING, None)
    assert store.manifest().settings == ()
    assert store.breakers() == ()
    jobs = [new_job(key="busy", unique="waits"), new_job(queue="drained", key="slow")]
    assert [(each.outcome, each.state) for each in store.enqueue(jobs)] == [("new", READY)] * 2
    assert set(Holder(store).claim_ids()) == {job.id for job in jobs}


# -- while it closes


def test_store_does_not_close_before_committed_flows_are_written_out(store: Store) -> None:
    flow = new_id()
    store.stage(flow, 0, [new_job() for _ in range(CHUNK)])
    store.stage(flow, 1, [new_job()])
    assert store.commit(flow, 2)
    step(store, None, CLOSING)
    assert not store.relocate(CLOSING, CLOSED).done
    promote_all(store)
    step(store, CLOSING, CLOSED)
    assert counts(store) == {READY: CHUNK + 1}
    assert store.manifest().jobs == CHUNK + 1


def test_store_that_is_closing_commits_no_flow_but_that_of_a_job_that_runs(
    store: Store, holder: Holder
) -> None:
    flow = new_id()
    store.stage(flow, 0, [new_job()])
    add(store)
    lease = holder.take()
    step(store, None, CLOSING)
    with pytest.raises(StoreMoved):
        store.commit(flow, 1)
    own = new_id()
    store.stage(own, 0, [child(lease.job)])
    assert holder.settle(AwaitChildren(lease, own, 1, 1)) == ()
    assert not store.relocate(CLOSING, CLOSED).done
    promote_all(store)
    step(store, CLOSING, CLOSED)
    assert counts(store) == {BLOCKED: 1, READY: 1}
