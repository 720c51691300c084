"""Reservations: a heavy job that was passed over for long enough is let in before all others."""

from datetime import timedelta
from typing import Protocol

import pytest
from contract.driver import KILLED, Holder, add, add_many, state
from contract.gates import CORE, GIB, ROOM, Gated
from contract.test_permits import caller

from limpet.domain.assessment import UNBOUNDED
from limpet.domain.cause import Drained
from limpet.domain.permit import RESERVE_AFTER_US, RESERVED_FOR_US, Reservation
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.domain.weight import HEAVY, Weight
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

WEIGHTS = {"big": Weight(cpu=4.0), "small": CORE}
STEP = 60_000_000


class Renewing(Protocol):
    """One who has a session."""

    def renew(self) -> object: ...


def wait(clock: FakeClock, microseconds: int, *holders: Renewing) -> None:
    """Let time pass in which these sessions stay alive."""
    while microseconds > 0:
        step = min(microseconds, 5_000_000)
        clock.advance(timedelta(microseconds=step))
        microseconds -= step
        for holder in holders:
            holder.renew()


def crowd(store: Store, clock: FakeClock, big: Weight = WEIGHTS["big"]) -> tuple[Gated, str]:
    """A host with one small job, and a big one that has waited for as long as one has to."""
    add(store, task="small")
    holder = Gated(store, {**WEIGHTS, "big": big})
    holder.gated()
    job = add(store, task="big")
    wait(clock, RESERVE_AFTER_US, holder)
    return holder, job


def test_job_that_was_passed_over_for_long_is_not_starved_by_smaller_ones(
    store: Store, clock: FakeClock
) -> None:
    add_many(store, 2, task="small")
    holder = Gated(store, WEIGHTS)
    running = [each.lease for each in holder.gated()]
    big = add(store, task="big")
    waited = 0
    while waited < 2 * RESERVE_AFTER_US:
        wait(clock, 1_000_000, holder)
        waited += 1_000_000
        add(store, task="small")
        # There is always a small one under way, and another that would fit.
        claimed = holder.gated(*(Complete(each) for each in running[:1]))
        if [each.lease.job for each in claimed] == [big]:
            break
        running = running[1:] + [each.lease for each in claimed]
    assert RESERVE_AFTER_US <= waited <= RESERVE_AFTER_US + 2_000_000


@pytest.mark.parametrize("big", [WEIGHTS["big"], HEAVY], ids=["large", "heavy"])
def test_nothing_else_is_admitted_where_a_job_has_reserved_until_it_begins(
    store: Store, clock: FakeClock, big: Weight
) -> None:
    holder, job = crowd(store, clock, big)
    (small,) = holder.store.permits()
    others = add_many(store, 2, task="small")
    light = add(store)
    assert holder.gated_ids() == [light]
    assert store.reservations() == (Reservation("web-1", job, clock.wall()),)
    lease = next(lease for lease in store.held(holder.id) if lease.job == small.holder)
    (begun,) = holder.gated(Complete(lease))
    assert begun.lease.job == job
    assert store.reservations() == ()
    assert [each.lease.job for each in holder.gated(Complete(begun.lease))] == others


def test_job_that_has_not_waited_long_enough_reserves_nothing(
    store: Store, clock: FakeClock
) -> None:
    add(store, task="small")
    holder = Gated(store, WEIGHTS)
    holder.gated()
    add(store, task="big")
    wait(clock, RESERVE_AFTER_US - 1, holder)
    other = add(store, task="small")
    assert holder.gated_ids() == [other]
    assert store.reservations() == ()


def test_job_that_the_host_could_never_carry_reserves_nothing(
    store: Store, clock: FakeClock
) -> None:
    holder, _ = crowd(store, clock, Weight(cpu=4.001))
    other = add(store, task="small")
    assert holder.gated_ids() == [other]
    assert store.reservations() == ()


def test_busy_host_is_reserved_too(store: Store, clock: FakeClock) -> None:
    holder, job = crowd(store, clock)
    assert holder.gated_ids(room=ROOM._replace(free_cpu=0)) == []
    assert [each.holder for each in store.reservations()] == [job]


def test_the_oldest_reserves(store: Store, clock: FakeClock) -> None:
    holder, first = crowd(store, clock)
    add(store, task="big")
    wait(clock, RESERVE_AFTER_US, holder)
    holder.gated()
    assert [each.holder for each in store.reservations()] == [first]


def test_job_reserves_one_host_and_is_taken_by_any(store: Store, clock: FakeClock) -> None:
    holder, job = crowd(store, clock)
    assert holder.gated_ids() == []
    user = caller(store)
    other = ROOM._replace(server="web-2")
    assert store.take_permit(user, CORE, other)
    elsewhere = Gated(store, WEIGHTS, other)
    assert elsewhere.gated_ids() == []
    assert [each.server for each in store.reservations()] == ["web-1"]
    store.end(user, KILLED)
    small = add(store, task="small")
    assert elsewhere.gated_ids() == [job]
    assert store.reservations() == ()
    assert holder.gated_ids() == [small]


def test_reservation_that_nobody_confirms_holds_nothing_up(store: Store, clock: FakeClock) -> None:
    holder, job = crowd(store, clock)
    holder.gated()
    wait(clock, RESERVED_FOR_US, holder)
    small = add(store, task="small")
    other = Gated(store, {"small": CORE})  # knows nothing of what is big
    assert other.gated_ids() == [small]
    assert store.reservations() == ()
    assert state(store, job) is State.READY


def test_reservation_of_before_the_clock_was_set_back_holds_nothing_up(
    store: Store, clock: FakeClock
) -> None:
    """Who confirmed it may be dead; by the clock it would be an hour until it lapses."""
    holder, job = crowd(store, clock)
    holder.gated()
    clock.step_wall(-timedelta(hours=1))
    assert store.reservations() == ()
    small = add(store, task="small")
    assert Gated(store, {"small": CORE}).gated_ids() == [small]
    assert state(store, job) is State.READY


def test_reservation_outlives_a_small_correction_of_the_clock(
    store: Store, clock: FakeClock
) -> None:
    holder, job = crowd(store, clock)
    holder.gated()
    clock.step_wall(-timedelta(seconds=1))
    assert [each.holder for each in store.reservations()] == [job]
    add(store, task="small")
    assert Gated(store, {"small": CORE}).gated_ids() == []


def test_job_reserves_another_host_after_the_clock_was_set_back(
    store: Store, clock: FakeClock
) -> None:
    holder, job = crowd(store, clock)
    wait(clock, 2 * STEP, holder)
    holder.gated()
    clock.step_wall(-timedelta(microseconds=STEP))
    other = ROOM._replace(server="web-2")
    assert store.take_permit(caller(store), CORE, other)
    Gated(store, WEIGHTS, other).gated()
    assert store.reservations() == (Reservation("web-2", job, clock.wall()),)


def test_reservation_of_before_the_clock_was_set_back_does_not_return(
    store: Store, clock: FakeClock
) -> None:
    holder, _ = crowd(store, clock)
    holder.gated()
    clock.step_wall(-timedelta(microseconds=STEP))
    store.publish_host("web-1", "{}", timedelta(seconds=10))
    wait(clock, STEP, holder)
    assert store.reservations() == ()


def test_reservation_is_confirmed_by_each_claim_that_meets_its_job(
    store: Store, clock: FakeClock
) -> None:
    holder, job = crowd(store, clock)
    holder.gated()
    for _ in range(3):
        wait(clock, RESERVED_FOR_US - 1, holder)
        add(store, task="small")
        assert holder.gated_ids() == []
    assert [each.holder for each in store.reservations()] == [job]


def test_job_of_a_host_that_is_gone_reserves_another(store: Store, clock: FakeClock) -> None:
    holder, job = crowd(store, clock)
    holder.gated()
    wait(clock, RESERVED_FOR_US, holder)
    other = ROOM._replace(server="web-2")
    assert store.take_permit(caller(store), CORE, other)
    Gated(store, WEIGHTS, other).gated()
    assert store.reservations() == (Reservation("web-2", job, clock.wall()),)


def test_host_is_not_reserved_for_what_no_end_of_a_permit_would_let_begin(
    store: Store, clock: FakeClock
) -> None:
    """Somebody outside of Limpet has the memory, or the cores: others must go on."""
    big = Weight(memory="7GiB")
    job = add(store, task="big")
    holder = Gated(store, {"big": big, "small": CORE})
    wait(clock, RESERVE_AFTER_US, holder)
    small = add_many(store, 2, task="small")
    room = ROOM._replace(free_memory=6 * GIB)
    assert holder.gated_ids(1, room=room) == small[:1]
    assert holder.gated_ids(room=room) == small[1:]
    assert store.reservations() == ()
    assert state(store, job) is State.READY


@pytest.mark.parametrize(("unseen", "reserved"), [(0, True), (UNBOUNDED, False)])
def test_memory_of_permits_comes_back_only_where_it_was_measured_as_taken(
    store: Store, clock: FakeClock, unseen: int, reserved: bool
) -> None:
    """Where what is free is free of others alone, an end of permits does not make it more."""
    add(store, task="small")
    holder = Gated(store, {"big": Weight(memory="7GiB"), "small": Weight(memory="2GiB")})
    holder.gated()
    add(store, task="big")
    wait(clock, RESERVE_AFTER_US, holder)
    room = ROOM._replace(free_memory=6 * GIB, unseen=unseen)
    assert holder.gated_ids(room=room) == []
    assert bool(store.reservations()) is reserved


@pytest.mark.parametrize(
    ("free_cpu", "unseen", "reserved"),
    [
        (-999, 0, True),
        (-1_000, 0, False),
        (1, UNBOUNDED, True),
        (0, UNBOUNDED, False),
        (None, UNBOUNDED, True),
    ],
)
def test_cores_of_permits_come_back_only_where_they_were_measured_as_taken(
    store: Store, clock: FakeClock, free_cpu: int | None, unseen: int, reserved: bool
) -> None:
    """Where others leave no core, an end of permits gives none back: what needs none goes on."""
    holder, job = crowd(store, clock)
    copy = add(store, task="copy")
    holder = Gated(store, {**holder.weights, "copy": Weight(memory=GIB)})
    room = ROOM._replace(free_cpu=free_cpu, unseen=unseen)
    assert holder.gated_ids(room=room) == ([] if reserved else [copy])
    assert [each.holder for each in store.reservations()] == ([job] if reserved else [])


def test_busy_host_is_reserved_for_heavy_work_that_needs_no_cores(
    store: Store, clock: FakeClock
) -> None:
    holder, job = crowd(store, clock, HEAVY)
    assert holder.gated_ids(room=ROOM._replace(free_cpu=0, unseen=UNBOUNDED)) == []
    assert [each.holder for each in store.reservations()] == [job]


def test_reservation_lapses_once_others_leave_no_cores(store: Store, clock: FakeClock) -> None:
    holder, _ = crowd(store, clock)
    holder.gated()
    busy = ROOM._replace(free_cpu=0, unseen=UNBOUNDED)
    wait(clock, RESERVED_FOR_US - 1, holder)
    assert holder.gated_ids(room=busy) == []
    wait(clock, 1, holder)
    assert store.reservations() == ()


def test_reservation_is_not_kept_up_once_nothing_is_left_to_wait_for(
    store: Store, clock: FakeClock
) -> None:
    holder, _ = crowd(store, clock)
    (small,) = store.permits()
    holder.gated()
    lease = next(lease for lease in store.held(holder.id) if lease.job == small.holder)
    busy = ROOM._replace(free_cpu=0)
    assert holder.gated(Complete(lease), room=busy) == ()
    wait(clock, RESERVED_FOR_US, holder)
    assert holder.gated(room=busy) == ()
    assert store.reservations() == ()


def test_reservation_ends_with_its_job(store: Store, clock: FakeClock) -> None:
    holder, job = crowd(store, clock)
    holder.gated()
    store.cancel(job)
    assert store.reservations() == ()
    small = add(store, task="small")
    assert holder.gated_ids() == [small]


def test_reservation_ends_when_its_queue_is_paused(store: Store, clock: FakeClock) -> None:
    holder, _ = crowd(store, clock)
    holder.gated()
    store.pause("default")
    small = add(store, task="small", queue="other")
    wait(clock, RESERVED_FOR_US, holder)
    assert holder.gated_ids() == [small]


def test_caller_outside_is_not_admitted_where_a_job_has_reserved(
    store: Store, clock: FakeClock
) -> None:
    holder, _ = crowd(store, clock)
    holder.gated()
    assert not store.take_permit(caller(store), CORE, ROOM)
    assert store.take_permit(caller(store), CORE, ROOM._replace(server="web-2"))


def test_worker_without_a_gate_may_take_the_job_and_that_ends_it(
    store: Store, clock: FakeClock
) -> None:
    holder, job = crowd(store, clock)
    holder.gated()
    other = Holder(store, ["big"])
    lease = other.take()
    assert lease.job == job
    assert store.reservations() == ()
    other.release(lease, cause=Drained())
    assert store.reservations() == ()
    small = add(store, task="small")
    assert Gated(store, {"small": CORE}).gated_ids() == [small]
