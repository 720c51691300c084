"""Callers outside that have waited for long reserve their host, as jobs do."""

from datetime import timedelta

import pytest
from contract.driver import KILLED, Holder, add, add_many, state
from contract.gates import CORE, GIB, ROOM, Gated
from contract.test_permits import caller
from contract.test_reservations import STEP, WEIGHTS, crowd, wait

from limpet.domain.assessment import UNBOUNDED
from limpet.domain.permit import RESERVE_AFTER_US, RESERVED_FOR_US, Reservation, Room
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.domain.weight import HEAVY, Weight
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

ALL = Weight(cpu=4.0)
OTHER = ROOM._replace(server="web-2")


class Caller:
    """Somebody who asks for a permit again and again."""

    def __init__(self, store: Store, weight: Weight = ALL, name: str = "backup") -> None:
        self.store = store
        self.weight = weight
        self.id = caller(store, name)

    def asks(self, room: Room = ROOM) -> bool:
        return self.store.take_permit(self.id, self.weight, room)

    def renew(self) -> None:
        self.store.renew(self.id)

    def end(self) -> None:
        self.store.end(self.id, KILLED)


def waiting(store: Store, clock: FakeClock, weight: Weight = ALL) -> tuple[Caller, Caller]:
    """Who uses some of a host, and who has waited for all of it as long as one has to."""
    user, patient = Caller(store, CORE, "user"), Caller(store, weight)
    assert user.asks()
    wait(clock, RESERVE_AFTER_US, user, patient)
    return user, patient


def reserved(store: Store) -> list[str]:
    return [each.holder for each in store.reservations()]


def test_caller_that_has_waited_for_long_is_not_starved_by_smaller_work(
    store: Store, clock: FakeClock
) -> None:
    add_many(store, 2, task="small")
    holder, big = Gated(store, WEIGHTS), Caller(store)
    running = [each.lease for each in holder.gated()]
    waited = 0
    while waited < 2 * RESERVE_AFTER_US and not big.asks():
        wait(clock, 1_000_000, holder, big)
        waited += 1_000_000
        add(store, task="small")
        # There is always a small one under way, and another that would fit.
        claimed = holder.gated(*(Complete(each) for each in running[:1]))
        running = running[1:] + [each.lease for each in claimed]
    assert RESERVE_AFTER_US <= waited <= RESERVE_AFTER_US + 3_000_000


@pytest.mark.parametrize("weight", [ALL, HEAVY], ids=["large", "heavy"])
def test_nothing_else_is_admitted_where_a_caller_has_reserved_until_it_has_its_permit(
    store: Store, clock: FakeClock, weight: Weight
) -> None:
    user, patient = waiting(store, clock, weight)
    jobs = add_many(store, 2, task="small")
    light = add(store)
    holder, other = Gated(store, WEIGHTS), Caller(store, CORE)
    assert not patient.asks()
    assert store.reservations() == (Reservation("web-1", patient.id, clock.wall(), "backup"),)
    assert holder.gated_ids() == [light]
    assert not other.asks()
    assert other.asks(OTHER)
    user.end()
    assert holder.gated_ids() == []
    assert patient.asks()
    assert store.reservations() == ()
    patient.end()
    assert holder.gated_ids() == jobs


def test_caller_that_has_not_waited_long_enough_reserves_nothing(
    store: Store, clock: FakeClock
) -> None:
    user, patient = Caller(store, CORE), Caller(store)
    assert user.asks()
    wait(clock, RESERVE_AFTER_US - 1, user, patient)
    assert not patient.asks()
    assert store.reservations() == ()
    assert Caller(store, CORE).asks()


def test_patience_of_a_caller_is_its_own(store: Store, clock: FakeClock) -> None:
    user, patient = Caller(store, CORE), Caller(store)
    assert user.asks()
    wait(clock, 1_000_000, user, patient)
    assert not store.take_permit(patient.id, ALL, ROOM, reserve_after_us=1_000_001)
    assert store.reservations() == ()
    assert not store.take_permit(patient.id, ALL, ROOM, reserve_after_us=1_000_000)
    assert reserved(store) == [patient.id]


@pytest.mark.parametrize(
    ("weight", "room"),
    [
        (Weight(cpu=4.001), ROOM),
        (Weight(memory=7 * GIB), ROOM._replace(free_memory=6 * GIB)),
        (ALL, ROOM._replace(free_cpu=-1_000)),
        (ALL, ROOM._replace(free_cpu=0, unseen=UNBOUNDED)),
    ],
    ids=["never fits", "others have the memory", "others have the cores", "all seen apart"],
)
def test_caller_whom_no_end_of_a_permit_would_help_reserves_nothing(
    store: Store, clock: FakeClock, weight: Weight, room: Room
) -> None:
    _, patient = waiting(store, clock, weight)
    assert not patient.asks(room)
    assert store.reservations() == ()
    assert Caller(store, Weight(memory=GIB)).asks(room)


def test_callers_reservation_is_confirmed_by_each_ask_and_ends_without(
    store: Store, clock: FakeClock
) -> None:
    user, patient = waiting(store, clock)
    job = add(store, task="small")
    holder = Gated(store, {"small": CORE})
    for _ in range(3):
        assert not patient.asks()
        wait(clock, RESERVED_FOR_US - 1, user, patient, holder)
        assert holder.gated_ids() == []
    assert not patient.asks()
    wait(clock, RESERVED_FOR_US, user, patient, holder)
    assert store.reservations() == ()
    assert holder.gated_ids() == [job]


def test_callers_reservation_of_before_the_clock_was_set_back_holds_nothing_up(
    store: Store, clock: FakeClock
) -> None:
    _, patient = waiting(store, clock)
    assert not patient.asks()
    clock.step_wall(-timedelta(hours=1))
    assert store.reservations() == ()
    assert Caller(store, CORE).asks()


def test_caller_reserves_another_host_after_the_clock_was_set_back(
    store: Store, clock: FakeClock
) -> None:
    user, patient = waiting(store, clock)
    wait(clock, 2 * STEP, user, patient)
    assert not patient.asks()
    clock.step_wall(-timedelta(microseconds=STEP))
    assert Caller(store, CORE).asks(OTHER)
    assert not patient.asks(OTHER)
    assert store.reservations() == (Reservation("web-2", patient.id, clock.wall(), "backup"),)


def test_callers_reservation_is_not_kept_up_once_nothing_is_left_to_wait_for(
    store: Store, clock: FakeClock
) -> None:
    user, patient = waiting(store, clock)
    busy = ROOM._replace(free_cpu=0)
    assert not patient.asks(busy)
    assert reserved(store) == [patient.id]
    user.end()
    wait(clock, RESERVED_FOR_US, patient)
    assert not patient.asks(busy)
    assert store.reservations() == ()


def test_callers_reservation_ends_with_its_session(store: Store, clock: FakeClock) -> None:
    _, patient = waiting(store, clock)
    assert not patient.asks()
    patient.end()
    assert store.reservations() == ()
    job = add(store, task="small")
    assert Gated(store, WEIGHTS).gated_ids() == [job]
    assert Caller(store, CORE).asks()


def test_caller_reserves_one_host(store: Store, clock: FakeClock) -> None:
    _, patient = waiting(store, clock)
    assert not patient.asks()
    assert Caller(store, CORE).asks(OTHER)
    assert not patient.asks(OTHER)
    assert [each.server for each in store.reservations()] == ["web-1"]
    assert Caller(store, CORE).asks(OTHER)


def test_permit_of_another_host_ends_what_a_caller_has_reserved(
    store: Store, clock: FakeClock
) -> None:
    _, patient = waiting(store, clock)
    assert not patient.asks()
    assert patient.asks(OTHER)
    assert store.reservations() == ()
    assert Caller(store, CORE).asks()


def test_host_that_is_reserved_is_not_reserved_for_another(store: Store, clock: FakeClock) -> None:
    holder, job = crowd(store, clock)
    patient = Caller(store)
    holder.gated()
    for _ in range(5):
        wait(clock, RESERVED_FOR_US - 1, holder, patient)
        assert not patient.asks()
        holder.gated()
    assert reserved(store) == [job]


def test_job_does_not_take_over_what_a_caller_has_reserved(store: Store, clock: FakeClock) -> None:
    holder, job = crowd(store, clock)
    patient = Caller(store)
    wait(clock, RESERVE_AFTER_US, holder, patient)
    assert not patient.asks()
    assert holder.gated_ids() == []
    assert reserved(store) == [patient.id]
    assert state(store, job) is State.READY


@pytest.mark.parametrize("first", ["job", "caller"])
def test_job_and_caller_that_both_wait_for_a_host_have_it_one_after_the_other(
    store: Store, clock: FakeClock, first: str
) -> None:
    """Others would always fit, but none begins before both have."""
    holder, job = crowd(store, clock)
    patient = Caller(store)
    wait(clock, RESERVE_AFTER_US, holder, patient)
    begins = {"job": lambda: holder.gated_ids() == [job], "caller": patient.asks}
    ends = {"job": lambda: finish(holder), "caller": patient.end}
    second = "caller" if first == "job" else "job"
    assert not begins[first]()
    finish(holder)  # the small one that was there
    small = add(store, task="small")
    assert not begins[second]()
    assert not Caller(store, CORE).asks()
    assert begins[first]()
    assert not begins[second]()
    ends[first]()
    assert not Caller(store, CORE).asks()
    assert begins[second]()
    ends[second]()
    assert holder.gated_ids() == [small]


def finish(holder: Gated) -> None:
    holder.exchange(*(Complete(lease) for lease in holder.store.held(holder.id)))


def test_each_gets_its_host_where_job_and_caller_have_one_each(
    store: Store, clock: FakeClock
) -> None:
    """Neither takes what the other has reserved, and neither waits for the other."""
    holder, job = crowd(store, clock)  # a small job is on web-1
    users = [Caller(store, CORE, f"user {n}") for n in range(2)]
    assert users[0].asks(OTHER)
    patient = Caller(store)
    wait(clock, RESERVE_AFTER_US, holder, patient, *users)
    assert not patient.asks()
    elsewhere = Gated(store, WEIGHTS, OTHER)
    assert elsewhere.gated_ids() == []
    assert store.reservations() == (
        Reservation("web-1", patient.id, clock.wall(), "backup"),
        Reservation("web-2", job, clock.wall()),
    )
    (small,) = store.held(holder.id)
    holder.exchange(Complete(small))
    assert holder.gated_ids() == []  # the job would fit
    users[0].end()
    assert not store.take_permit(caller(store), CORE, OTHER)
    assert patient.asks()
    assert elsewhere.gated_ids() == [job]
    assert store.reservations() == ()


def test_what_a_caller_does_not_confirm_is_reserved_for_a_job(
    store: Store, clock: FakeClock
) -> None:
    holder, job = crowd(store, clock)
    patient = Caller(store)
    wait(clock, RESERVE_AFTER_US, holder, patient)
    assert not patient.asks()
    wait(clock, RESERVED_FOR_US, holder, patient)
    assert holder.gated_ids() == []
    assert store.reservations() == (Reservation("web-1", job, clock.wall()),)
    assert not patient.asks()
    store.cancel(job)
    assert store.reservations() == ()


def test_what_no_claim_confirms_is_reserved_for_a_caller(store: Store, clock: FakeClock) -> None:
    holder, job = crowd(store, clock)
    patient = Caller(store)
    holder.gated()
    assert reserved(store) == [job]
    wait(clock, RESERVE_AFTER_US, holder, patient)
    assert not patient.asks()
    assert reserved(store) == [patient.id]
    other = Holder(store, ["big"])
    assert other.take().job == job
    assert reserved(store) == [patient.id]
