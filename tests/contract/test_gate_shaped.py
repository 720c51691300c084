"""The gate beside keys, flows, rates, breakers and weights of queues."""

from datetime import timedelta

from contract.driver import MINUTE, add, add_many, state, states
from contract.gates import CORE, ROOM, Gated
from contract.test_breakers import OPEN, PROBING, RULES, breaker, saw, trip
from contract.test_fan_out import fan_out

from limpet.domain.queue import QueueRules
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.domain.weight import Weight
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock

READY, RUNNING = State.READY, State.RUNNING
SMALL = ROOM._replace(cpu=1_000)


def test_turn_of_a_key_and_permit_are_given_back_together(store: Store) -> None:
    first, second = add_many(store, 2, task="render", key="k")
    other = add(store, task="render", key="other")
    holder = Gated(store, room=SMALL)
    (held,) = holder.gated()
    assert held.lease.job == first
    (following,) = holder.gated(Complete(held.lease, "[1]"))
    assert following.lease.job == second
    assert [each.lease.job for each in holder.gated(Complete(following.lease))] == [other]
    assert [each.holder for each in store.permits()] == [other]
    assert store.invariants() == ()


def test_job_that_waits_for_its_children_has_no_permit(store: Store) -> None:
    job = add(store, task="render")
    holder = Gated(store, room=SMALL)
    (held,) = holder.gated()
    said, _ = fan_out(store, held.lease, 2)
    assert holder.settle(said) == ()
    assert state(store, job) is State.BLOCKED
    assert store.permits() == ()


def test_light_and_weighted_jobs_are_settled_together(store: Store) -> None:
    light = add_many(store, 3)
    heavy = add_many(store, 3, task="render")
    holder = Gated(store)
    claimed = holder.gated()
    assert {each.lease.job for each in claimed} == {*light, *heavy}
    assert holder.settle(*(Complete(each.lease, '"x"') for each in claimed)) == ()
    assert store.permits() == ()
    assert set(states(store, light + heavy)) == {State.SUCCEEDED}
    assert store.invariants() == ()


def test_as_many_permits_are_given_and_given_back_as_one_claim_can_take(store: Store) -> None:
    add_many(store, CHUNK, task="render")
    holder = Gated(store, {"render": Weight(cpu=0.001)})
    claimed = holder.gated(total=CHUNK)
    assert len(claimed) == len(store.permits()) == CHUNK
    assert holder.settle(*(Complete(each.lease) for each in claimed)) == ()
    assert store.permits() == ()


def test_queue_with_a_share_gives_what_fits_where_its_first_does_not(store: Store) -> None:
    big = add(store, task="big", queue="one")
    light = add_many(store, 2, queue="one")
    render = add(store, task="render", queue="two")
    store.limit_queue("one", QueueRules(weight=3))
    holder = Gated(store, {"big": Weight(cpu=2.0), "render": CORE}, SMALL)
    assert sorted(holder.gated_ids()) == sorted([*light, render])
    assert state(store, big) is READY


def test_job_that_has_lapsed_takes_no_room(store: Store, clock: FakeClock) -> None:
    lapsed = add(store, task="render", expires_at=clock.wall() + MINUTE)
    job = add(store, task="render")
    clock.advance(timedelta(microseconds=MINUTE))
    assert Gated(store, room=SMALL).gated_ids() == [job]
    assert state(store, lapsed) is READY


def test_attempt_that_the_host_cannot_carry_is_not_the_one_that_is_tried(
    store: Store, clock: FakeClock
) -> None:
    store.declare_breakers([RULES])
    job = add(store, task="other")
    holder = Gated(store, {"other": CORE})
    trip(holder)
    for _ in range(2):
        clock.advance(timedelta(microseconds=RULES.probe_after / 2))
        holder.renew()
    assert holder.gated_ids(room=ROOM._replace(free_cpu=0)) == []
    assert breaker(store).state is OPEN
    assert holder.gated_ids() == [job]
    assert breaker(store).state is PROBING
    holder.exchange(observed=[saw(1, 0)])


def test_queue_is_not_charged_for_what_does_not_fit(store: Store) -> None:
    jobs = add_many(store, 4, task="render")
    store.limit_queue("default", QueueRules(concurrency=3))
    holder = Gated(store, room=SMALL)
    (first,) = holder.gated()
    assert first.lease.job == jobs[0]
    assert holder.gated_ids(room=ROOM) == jobs[1:3]
    assert states(store, jobs) == [RUNNING, RUNNING, RUNNING, READY]
