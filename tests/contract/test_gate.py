"""The gate: what has a weight is claimed only where its host can carry it."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

import pytest
from contract.driver import (
    BOOM,
    KILLED,
    MINUTE,
    Holder,
    add,
    add_many,
    counts,
    state,
    states,
)
from contract.gates import CORE, GIB, HALF, ROOM, Gated

from limpet.domain.cause import Drained
from limpet.domain.lease import Lease
from limpet.domain.permit import PermitRecord
from limpet.domain.queue import QueueRules
from limpet.domain.state import State
from limpet.domain.transition import (
    Cancel,
    Complete,
    Fail,
    Orphan,
    Quarantine,
    Release,
    RetryAt,
    Settlement,
    SnoozeUntil,
)
from limpet.domain.weight import HEAVY, Weight
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store, Want
from limpet.testing.clock import FakeClock

READY, RUNNING = State.READY, State.RUNNING
SECONDS = timedelta(seconds=1)


# -- what is reserved


def test_no_more_is_claimed_than_the_host_can_carry(store: Store) -> None:
    jobs = add_many(store, 6, task="render")
    holder = Gated(store)
    assert holder.gated_ids() == jobs[:4]
    assert holder.gated_ids() == []
    assert counts(store) == {RUNNING: 4, READY: 2}


def test_light_jobs_pass_by_a_heavy_one_at_the_head_of_their_queue(store: Store) -> None:
    add_many(store, 6, task="render")
    light = add_many(store, 3)
    holder = Gated(store, room=ROOM._replace(cpu=500))
    assert holder.gated_ids() == light


def test_smaller_work_passes_by_what_does_not_fit(store: Store) -> None:
    big = add(store, task="big")
    small = add_many(store, 3, task="small")
    holder = Gated(store, {"big": Weight(cpu=4.0), "small": CORE}, ROOM._replace(cpu=2_000))
    assert holder.gated_ids() == small[:2]
    assert state(store, big) is READY


def test_what_fits_is_claimed_in_the_order_of_the_line(store: Store) -> None:
    first = add(store, task="one")
    second = add(store, task="other")
    third = add(store, task="one")
    light = add(store)
    last = add(store, task="other")
    holder = Gated(store, {"one": CORE, "other": HALF}, ROOM._replace(cpu=2_500))
    assert holder.gated_ids() == [first, second, third, light]
    assert state(store, last) is READY


def test_memory_is_counted_as_cores_are(store: Store) -> None:
    jobs = add_many(store, 3, task="render")
    holder = Gated(store, {"render": Weight(cpu=0.1, memory="3GiB")})
    assert holder.gated_ids() == jobs[:2]


def test_sessions_of_one_host_share_its_room_and_those_of_another_do_not(store: Store) -> None:
    jobs = add_many(store, 12, task="render")
    one, two = Gated(store), Gated(store)
    assert one.gated_ids(3) == jobs[:3]
    assert two.gated_ids() == jobs[3:4]
    assert one.gated_ids() == []
    assert Gated(store, room=ROOM._replace(server="web-2")).gated_ids() == jobs[4:8]


def test_pools_of_one_claim_share_the_room(store: Store) -> None:
    jobs = add_many(store, 6, task="render")
    holder = Gated(store)
    want = Want((holder.pool(3), holder.pool(3)), holder.gate())
    assert [job.lease.job for job in holder.exchange(want=want).claimed] == jobs[:4]


def test_without_a_gate_no_task_has_a_weight(store: Store) -> None:
    jobs = add_many(store, 6, task="render")
    assert Gated(store).claim_ids() == jobs
    assert store.permits() == ()


def test_permit_tells_who_holds_what_since_when(store: Store, clock: FakeClock) -> None:
    weight = Weight(cpu=1.5, memory="2GiB")
    first = add(store, task="render")
    second = add(store, task="render")
    holder = Gated(store, {"render": weight})
    holder.gated(total=1)
    began = clock.wall()
    clock.advance(SECONDS)
    holder.gated(total=1)
    assert store.permits() == (
        PermitRecord("web-1", first, holder.id, "render", weight, began),
        PermitRecord("web-1", second, holder.id, "render", weight, clock.wall()),
    )
    assert store.permits("web-1") == store.permits()
    assert store.permits("web-2") == ()


def test_repeat_of_a_claim_is_given_the_same_jobs_and_no_second_permit(store: Store) -> None:
    add_many(store, 6, task="render")
    holder = Gated(store)
    first = holder.gated(total=2)
    holder.seq -= 1
    assert holder.gated(total=2) == first
    assert len(store.permits()) == 2


def test_queue_with_a_limit_is_given_no_permits_above_it(store: Store) -> None:
    jobs = add_many(store, 4, task="render")
    store.limit_queue("default", QueueRules(concurrency=2))
    holder = Gated(store)
    assert holder.gated_ids() == jobs[:2]
    assert [each.holder for each in store.permits()] == jobs[:2]


def test_queues_with_weights_are_served_beside_the_gate(store: Store) -> None:
    for queue in ("one", "two"):
        add_many(store, 4, task="render", queue=queue)
    store.limit_queue("one", QueueRules(weight=3))
    holder = Gated(store)
    claimed = holder.gated()
    assert sorted(job.queue for job in claimed) == ["one", "one", "one", "two"]
    assert len(store.permits()) == 4


def test_what_is_passed_over_costs_its_queue_no_share(store: Store) -> None:
    add_many(store, 4, task="render", queue="one")
    for queue in ("one", "two"):
        add_many(store, 8, queue=queue)
    store.limit_queue("one", QueueRules(weight=3))
    claimed = Gated(store, room=ROOM._replace(cpu=500)).gated(total=8)
    assert Counter(job.queue for job in claimed) == {"one": 6, "two": 2}


def test_suspect_with_a_weight_runs_alone_where_it_fits(store: Store) -> None:
    jobs = add_many(store, 2, task="render")
    holder = Gated(store, room=ROOM._replace(cpu=1_000))
    (first,) = holder.gated(total=1)
    holder.settle(Orphan(first.lease, KILLED, begun=True, alone=False))
    (other,) = holder.gated()
    assert other.lease.job == jobs[1]
    assert holder.gated_ids(suspects=1) == []
    holder.settle(Complete(other.lease))
    assert holder.gated_ids() == []
    assert holder.gated_ids(suspects=1) == [jobs[0]]


# -- what is given back


def _ends(later: int) -> list[Callable[[Lease], Settlement]]:
    return [
        Complete,
        lambda lease: Complete(lease, '"result"'),
        lambda lease: Fail(lease, BOOM),
        lambda lease: RetryAt(lease, later, BOOM),
        lambda lease: SnoozeUntil(lease, later),
        lambda lease: Quarantine(lease, BOOM),
        Cancel,
        lambda lease: Release(lease, Drained()),
        lambda lease: Orphan(lease, KILLED, begun=True, alone=True),
    ]


def test_every_end_of_an_attempt_gives_its_permit_back(store: Store, clock: FakeClock) -> None:
    holder = Gated(store, room=ROOM._replace(cpu=1_000))
    for end in _ends(clock.wall() + MINUTE):
        add(store, task="render")
        (held,) = holder.gated(suspects=1)
        assert Gated(store).gated_ids(room=holder.room, suspects=1) == []
        with closing(store.listen(Topic.READY)) as bell:
            assert holder.settle(end(held.lease)) == ()
            assert bell.wait(timedelta(seconds=5))
        assert store.permits() == ()


def test_place_that_becomes_free_is_given_in_the_same_step(store: Store) -> None:
    jobs = add_many(store, 3, task="render")
    holder = Gated(store, room=ROOM._replace(cpu=1_000))
    (first,) = holder.gated()
    (second,) = holder.gated(Complete(first.lease))
    assert second.lease.job == jobs[1]
    assert [each.holder for each in store.permits()] == jobs[1:2]


def test_only_the_permits_of_what_ended_are_given_back(store: Store) -> None:
    jobs = add_many(store, 4, task="render")
    holder = Gated(store)
    claimed = holder.gated()
    holder.settle(*(Complete(each.lease) for each in claimed[:3]))
    assert [each.holder for each in store.permits()] == jobs[3:]


def test_release_gives_the_permit_back(store: Store) -> None:
    add(store, task="render")
    holder = Gated(store)
    (held,) = holder.gated()
    assert holder.release(held.lease, cause=Drained()) == ()
    assert store.permits() == ()


def test_room_of_a_session_that_is_dead_is_free_when_it_is_recovered(store: Store) -> None:
    jobs = add_many(store, 2, task="render")
    room = ROOM._replace(cpu=1_000)
    Gated(store, room=room).gated()
    dead = store.permits()[0].session
    assert store.end(dead, KILLED)
    store.recover(dead)
    assert store.permits() == ()
    assert len(Gated(store, room=room).gated_ids()) == 1
    assert sorted(states(store, jobs)) == [READY, RUNNING]


def test_cancelled_while_it_runs_it_keeps_its_permit_until_it_has_ended(store: Store) -> None:
    job = add(store, task="render")
    holder = Gated(store)
    (held,) = holder.gated()
    store.cancel(job)
    assert len(store.permits()) == 1
    holder.settle(Cancel(held.lease))
    assert store.permits() == ()


def test_late_word_of_an_old_holder_does_not_take_the_permit_of_the_next(store: Store) -> None:
    add(store, task="render")
    old = Gated(store)
    (held,) = old.gated()
    old.vanish()
    new = Gated(store)
    new.gated(suspects=1)
    assert len(old.settle(Complete(held.lease))) == 1
    assert [each.session for each in store.permits()] == [new.id]


# -- what is measured


def test_nothing_that_needs_cores_begins_on_a_host_that_is_too_busy(store: Store) -> None:
    add(store, task="render")
    light = add(store)
    kept = add(store, task="keep")
    weights = {"render": CORE, "keep": Weight(memory="1GiB")}
    holder = Gated(store, weights, ROOM._replace(free_cpu=0, free_memory=2 * GIB))
    assert holder.gated_ids() == [light, kept]


def test_job_for_all_cores_begins_where_they_are_free_enough(store: Store) -> None:
    job = add(store, task="render")
    holder = Gated(store, {"render": Weight(cpu=4.0)}, ROOM._replace(free_cpu=1))
    assert holder.gated_ids() == [job]


def test_just_admitted_counts_with_its_weight_until_it_can_be_measured(
    store: Store, clock: FakeClock
) -> None:
    jobs = add_many(store, 4, task="render")
    room = ROOM._replace(free_cpu=1_500, unseen=3_000_000)
    holder = Gated(store, room=room)
    assert holder.gated_ids() == jobs[:2]
    clock.advance(2 * SECONDS)
    assert Gated(store, room=room).gated_ids() == []
    clock.advance(2 * SECONDS)
    assert holder.gated_ids(1) == jobs[2:3]


def test_memory_must_be_there_for_it(store: Store, clock: FakeClock) -> None:
    jobs = add_many(store, 3, task="render")
    room = ROOM._replace(free_memory=3 * GIB, unseen=3_000_000)
    holder = Gated(store, {"render": Weight(memory="2GiB")}, room)
    assert holder.gated_ids() == jobs[:1]
    clock.advance(4 * SECONDS)
    assert holder.gated_ids(room=room._replace(free_memory=1 * GIB)) == []
    assert holder.gated_ids() == jobs[1:2]


# -- heavy


def test_one_heavy_job_at_a_time_on_a_host(store: Store) -> None:
    jobs = add_many(store, 3, task="heavy")
    weights = {"heavy": HEAVY}
    one, two = Gated(store, weights), Gated(store, weights, ROOM._replace(server="web-2"))
    (first,) = one.gated()
    assert one.gated_ids() == []
    assert two.gated_ids() == jobs[1:2]
    assert [each.lease.job for each in one.gated(Complete(first.lease))] == jobs[2:]


def test_nothing_weighted_begins_beside_a_heavy_job_nor_it_beside_that(store: Store) -> None:
    heavy = add(store, task="heavy")
    render = add(store, task="render")
    light = add(store)
    holder = Gated(store, {"heavy": HEAVY, "render": CORE})
    first = holder.gated()
    assert [each.lease.job for each in first] == [heavy, light]
    (second,) = holder.gated(Complete(first[0].lease))
    assert second.lease.job == render
    add(store, task="heavy")
    assert holder.gated_ids() == []


def test_heavy_job_waits_until_its_host_is_calm(store: Store) -> None:
    job = add(store, task="heavy")
    holder = Gated(store, {"heavy": HEAVY})
    assert holder.gated_ids(room=ROOM._replace(calm=False)) == []
    assert holder.gated_ids() == [job]


@pytest.mark.parametrize("weight", [CORE, Weight(cpu=4.1), Weight(memory="9GiB")])
def test_paused_queue_and_unknown_task_are_as_without_a_gate(store: Store, weight: Weight) -> None:
    add(store, task="render", queue="paused")
    stranger = add(store, task="stranger")
    store.pause("paused")
    holder = Gated(store, {"render": weight, "stranger": weight}, tasks=["other"])
    plain = Holder(store, ["task"])
    assert holder.gated_ids() == ([stranger] if ROOM.carries(weight) else [])
    assert plain.claim_ids() == []
