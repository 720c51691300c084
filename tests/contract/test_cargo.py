"""manifest, cargo, adopt, furnish, discard: jobs go from one store to another."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from contract.driver import (
    BOOM,
    SECOND,
    Holder,
    add,
    add_many,
    get,
)
from contract.everything import furnish, seen
from contract.moving import ARRIVED, ARRIVING, EMPTYING, MOVE, cargos, carry, step

from limpet.domain.errors import StoreNotMoved
from limpet.domain.job import LogLine, Report
from limpet.domain.lease import Lease
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail
from limpet.storage.contract.answers import Total
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.relocation import CARGO_BYTES, CarriedEvent, Manifest
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock

HEAVY = '{"text": "' + "x" * 300_000 + '"}'


@pytest.fixture
def other(clock: FakeClock) -> Iterator[Store]:
    """The other side of a move."""
    with closing(open_store("sqlite://", clock)) as opened:
        yield opened
        assert opened.invariants() == ()


def test_jobs_arrive_as_they_were(store: Store, other: Store, clock: FakeClock) -> None:
    jobs = furnish(other, clock)
    assert carry(other, store) == len(jobs)
    assert seen(store) == seen(other)
    assert store.manifest() == other.manifest()
    assert store.manifest().jobs == len(jobs)
    assert store.relocation()[0] == ARRIVED


def test_jobs_leave_as_they_were(store: Store, other: Store, clock: FakeClock) -> None:
    jobs = furnish(store, clock)
    assert carry(store, other) == len(jobs)
    assert seen(other) == seen(store)
    assert store.manifest() == other.manifest()


def test_jobs_that_arrived_live_on(store: Store, other: Store, clock: FakeClock) -> None:
    jobs = furnish(other, clock)
    tokens = {job: get(other, job).token for job in jobs}
    carry(other, store)
    for queue in ("still", "waiting"):
        for each in (store, other):
            each.pause(queue, False)
    clock.advance(timedelta(hours=2))
    new = add(store, queue="waiting")
    store.promote()
    other.promote()
    workers = [Holder(each, ("task", "stranger")) for each in (store, other)]
    claimed = [worker.claim(1_000, suspects=1_000) for worker in workers]
    assert [each.lease.job for each in claimed[0] if each.lease.job != new] == [
        each.lease.job for each in claimed[1]
    ]
    assert [each[4:] for each in claimed[0] if each.lease.job != new] == [
        each[4:] for each in claimed[1]
    ]
    assert claimed[0][-1].lease.job == new
    assert all(each.lease.token > tokens.get(each.lease.job, 0) for each in claimed[0])
    assert workers[0].settle(*(Complete(each.lease) for each in claimed[0])) == ()


def test_new_job_comes_after_its_equals_that_arrived(
    store: Store, other: Store, clock: FakeClock
) -> None:
    due = clock.wall() + SECOND
    jobs = add_many(other, 5, scheduled_for=due)
    carry(other, store)
    jobs.append(add(store, scheduled_for=due))
    clock.advance(timedelta(seconds=2))
    store.promote()
    assert Holder(store).claim_ids() == jobs


def test_repeat_of_what_was_settled_before_the_move_is_known(
    store: Store, other: Store, clock: FakeClock
) -> None:
    furnish(other, clock)
    (failed,) = [job for job in seen(other).jobs.values() if job.state is State.FAILED][:1]
    lease = Lease(failed.id, str(failed.session), failed.token)
    carry(other, store)
    holder = Holder(store, session=lease.session)
    (answer,) = holder.settle(Fail(lease, BOOM))
    assert answer.answer == "already"


def test_many_jobs_are_carried_a_chunk_at_a_time(store: Store, other: Store) -> None:
    jobs = [job for _ in range(3) for job in add_many(store, 700)]
    parts = cargos(store)
    assert [len(part.parcels) for part in parts if part.parcels] == [1_000, 1_000, 100]
    assert [each.id for part in parts for each in part.parcels] == jobs
    assert carry(store, other) == 2_100
    assert other.manifest() == store.manifest()


def test_cargo_of_large_jobs_is_bounded(store: Store, other: Store) -> None:
    jobs = add_many(store, 30, args=HEAVY)
    holder = Holder(store)
    (leased,) = holder.claim(1)
    lines = tuple(LogLine(n, "info", "x" * 8_000) for n in range(1_000))
    store.report(holder.id, [Report(leased.lease, None, lines)])
    holder.settle(Complete(leased.lease, HEAVY))
    parts = cargos(store)
    assert [each.id for part in parts for each in part.parcels] == jobs
    assert len(parts[0].parcels) == 1  # which is too large by itself
    assert all(len(part.parcels) * len(HEAVY) <= CARGO_BYTES for part in parts)
    assert len(parts) >= 3
    carry(store, other)
    assert other.log(leased.lease.job) == store.log(leased.lease.job)


def test_job_with_a_long_timeline_and_many_queues_arrive(store: Store, other: Store) -> None:
    job = add(other)
    cargo = other.cargo()
    events = [CarriedEvent(job, n, "snoozed", "s", 0, None, None, "snooze") for n in range(9_000)]
    step(store, None, ARRIVING)
    assert store.adopt(MOVE, cargo._replace(events=events)) == 1
    totals = tuple(
        Total(f"queue-{n:03}", move, n + 1)
        for n in range(400)
        for move in sorted(("block", "cancel", "claim", "complete", "enqueue", "fail"))
    )
    queues = tuple(sorted({each.queue for each in totals}))
    store.furnish(MOVE, Manifest((), queues, queues, totals))
    assert [event.at for event in store.events(job)] == list(range(9_000))
    found = store.manifest()
    assert (found.paused, found.totals) == (queues, totals)
    assert [each.at for each in store.cargo().events] == list(range(9_000))


def test_cargo_that_is_adopted_again_changes_nothing(
    store: Store, other: Store, clock: FakeClock
) -> None:
    furnish(other, clock)
    step(store, None, ARRIVING)
    (cargo,) = cargos(other)
    assert store.adopt(MOVE, cargo) == len(cargo.parcels)
    assert store.relocation() == (ARRIVING, cargo.cursor)
    before = seen(store)
    assert store.adopt(MOVE, cargo) == 0
    for _ in range(2):
        store.furnish(MOVE, other.manifest())
    assert seen(store)[:3] == before[:3]
    assert seen(store) == seen(other)


def test_cargo_is_taken_only_by_the_store_that_is_being_filled(store: Store, other: Store) -> None:
    add(other)
    cargo, manifest = other.cargo(), other.manifest()

    def refuses(move: str) -> None:
        for verb in (
            lambda: store.adopt(move, cargo),
            lambda: store.furnish(move, manifest),
            lambda: store.discard(move),
        ):
            with pytest.raises(StoreNotMoved):
                verb()

    refuses(MOVE)
    step(store, None, ARRIVING)
    refuses("n" * 26)
    store.adopt(MOVE, cargo)
    step(store, ARRIVING, ARRIVED)
    refuses(MOVE)
    assert store.manifest().jobs == 1


def test_what_has_arrived_can_be_discarded(store: Store, other: Store, clock: FakeClock) -> None:
    furnish(other, clock)
    add_many(other, 1_000, queue="many")
    step(store, None, ARRIVING)
    for each in cargos(other):
        store.adopt(MOVE, each)
    store.furnish(MOVE, other.manifest())
    with pytest.raises(StoreNotMoved):
        store.discard(MOVE)
    step(store, ARRIVING, EMPTYING, ARRIVING, EMPTYING)
    with pytest.raises(StoreNotMoved):
        store.adopt(MOVE, other.cargo())
    assert not store.relocate(EMPTYING, None).done
    assert store.invariants() == ()
    rounds = 1
    while store.discard(MOVE):
        rounds += 1
        assert store.invariants() == ()
    assert rounds == 2
    assert not store.discard(MOVE)
    step(store, EMPTYING, None)
    assert store.manifest().jobs == 0
    assert store.totals() == ()
    job = add(store)
    assert Holder(store).claim_ids() == [job]


def test_bell_rings_when_all_has_arrived(store: Store, other: Store) -> None:
    add(other)
    bell = store.listen(Topic.READY)
    try:
        bell.wait(timedelta())
        carry(other, store)
        assert bell.wait(timedelta(seconds=10))
    finally:
        bell.close()
