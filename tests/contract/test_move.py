"""relocate, manifest, cargo, adopt, furnish, discard: a store moves to another place."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from itertools import pairwise

import pytest
from contract.driver import (
    BOOM,
    KILLED,
    SECOND,
    Holder,
    add,
    add_many,
    get,
    new_id,
    new_job,
)
from contract.everything import furnish, seen

from limpet.domain.cause import Drained
from limpet.domain.errors import LimpetError, StoreMoved, StoreNotMoved
from limpet.domain.job import LogLine, Report
from limpet.domain.lease import Lease
from limpet.domain.queue import DEFAULT_RETENTION
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail
from limpet.storage.answers import Total
from limpet.storage.base import Store, Topic
from limpet.storage.registry import open_store
from limpet.storage.relocation import (
    CARGO_BYTES,
    Cargo,
    CarriedEvent,
    Manifest,
    Relocation,
    Stage,
)
from limpet.testing.clock import FakeClock

MOVE = "m" * 26
HEAVY = '{"text": "' + "x" * 300_000 + '"}'


def at(stage: Stage, move: str = MOVE) -> Relocation:
    return Relocation(move, stage, "redis://elsewhere:6379/0", "epoch")


CLOSING, CLOSED, MOVED = at(Stage.CLOSING), at(Stage.CLOSED), at(Stage.MOVED)
ARRIVING, ARRIVED, EMPTYING = at(Stage.ARRIVING), at(Stage.ARRIVED), at(Stage.EMPTYING)


@pytest.fixture
def other(clock: FakeClock) -> Iterator[Store]:
    """The other side of a move."""
    with closing(open_store("sqlite://", clock)) as opened:
        yield opened
        assert opened.invariants() == ()


def step(store: Store, *stages: Relocation | None) -> None:
    """Take a store from stage to stage."""
    for was, wanted in pairwise(stages):
        assert store.relocate(was, wanted).done


def cargos(store: Store) -> list[Cargo]:
    found = [store.cargo()]
    while found[-1].more:
        found.append(store.cargo(found[-1].cursor))
    return found


def carry(source: Store, target: Store) -> int:
    """The whole move, without what makes it safe; how many jobs were carried."""
    step(target, None, ARRIVING)
    count = sum(target.adopt(MOVE, each) for each in cargos(source))
    target.furnish(MOVE, source.manifest())
    step(target, ARRIVING, ARRIVED)
    return count


# -- what is refused


def test_store_that_is_closing_begins_nothing_new(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    step(store, None, CLOSING)
    for new in (lambda: add(store), lambda: Holder(store)):
        with pytest.raises(StoreMoved, match=r"being moved to redis://elsewhere"):
            new()
    with pytest.raises(StoreMoved):
        store.enqueue([new_job(id=job)])
    answer = holder.exchange(want=holder.want())
    assert (answer.standing, answer.claimed) == ("live", ())
    assert get(store, job).state is State.READY


def test_what_runs_in_a_store_that_is_closing_comes_to_its_end(
    store: Store, clock: FakeClock
) -> None:
    jobs = add_many(store, 4)
    holder = Holder(store)
    done, failed, lost, back = (each.lease for each in holder.claim())
    step(store, None, CLOSING)
    holder.renew(begun=[done, lost])
    assert store.report(holder.id, [Report(done, None, (LogLine(1, "info", "x"),))]) == ()
    child = new_job()
    assert store.enqueue([child], fence=done)[0].outcome == "new"
    assert store.cancel(failed.job) is State.RUNNING
    assert holder.settle(Complete(done, "1"), Fail(failed, BOOM)) == ()
    assert holder.release(back, cause=Drained()) == ()
    assert store.relocate(CLOSING, CLOSED) == (False, CLOSING, 1, 5, 1)
    holder.vanish(KILLED)
    store.expire()
    step(store, CLOSING, CLOSED)
    states = store.states([*jobs, child.id])
    assert sorted(states.values()) == ["failed", "ready", "ready", "ready", "succeeded"]
    assert get(store, lost.job).counters.orphans == 1


def verbs(store: Store, job: str, holder: str) -> dict[str, Callable[[], object]]:
    """Everything that writes, as far as it is about jobs."""
    lease = Lease(job, holder, 1)
    return {
        "enqueue": lambda: add(store),
        "enqueue_fenced": lambda: store.enqueue([new_job()], fence=lease),
        "register": lambda: Holder(store),
        "exchange": lambda: store.exchange(holder, 2, [Complete(lease)]),
        "renew": lambda: store.renew(holder),
        "report": lambda: store.report(holder, [Report(lease, None, (LogLine(1, "i", "x"),))]),
        "release": lambda: store.release(holder, [lease], KILLED),
        "promote": store.promote,
        "prune": lambda: store.prune(DEFAULT_RETENTION),
        "cancel": lambda: store.cancel(job),
        "retry": lambda: store.retry(job, 1),
        "pause": lambda: store.pause("default"),
    }


@pytest.mark.parametrize("stages", [(CLOSING, CLOSED), (CLOSING, CLOSED, MOVED)], ids=len)
def test_store_that_is_closed_is_not_written(
    store: Store, clock: FakeClock, stages: tuple[Relocation, ...]
) -> None:
    ready, due = add(store), add(store, scheduled_for=clock.wall() + SECOND)
    store.cancel(add(store))
    holder = Holder(store)
    holder.settle()
    step(store, None, *stages)
    clock.advance(timedelta(seconds=1))
    before = seen(store)
    word = "was moved" if MOVED in stages else "being moved"
    for job in (ready, due):
        for name, verb in verbs(store, job, holder.id).items():
            with pytest.raises(StoreMoved, match=f"{word} to redis://elsewhere"):
                pytest.fail(f"{name} answered {verb()!r}")
    assert seen(store) == before
    assert store.relocation() == (stages[-1], "")


def test_store_that_is_being_filled_takes_nothing_else(store: Store) -> None:
    step(store, None, ARRIVING)
    for name, verb in verbs(store, new_id(), new_id()).items():
        with pytest.raises(LimpetError) as refusal:
            pytest.fail(f"{name} answered {verb()!r}")
        if name in ("enqueue", "register", "promote", "prune", "pause"):
            assert "being filled" in str(refusal.value)
    assert seen(store)[:3] == ({}, {}, {})


def test_sessions_of_a_closed_store_can_end(store: Store, clock: FakeClock) -> None:
    first, second = Holder(store), Holder(store)
    step(store, None, CLOSING, CLOSED)
    assert store.end(first.id, Drained())
    assert store.recover(first.id).jobs == 0
    clock.advance(timedelta(minutes=1))
    assert store.expire() == ()
    assert store.sessions() == ()
    assert {each.id for each in store.sessions(with_dead=True)} == {first.id, second.id}


def test_store_that_is_opened_again_goes_on(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    step(store, None, CLOSING, CLOSED, None)
    assert store.relocation() == (None, "")
    other_job = add(store)
    assert set(holder.claim_ids()) == {job, other_job}


# -- the steps


def test_step_that_is_said_again_is_done(store: Store) -> None:
    step(store, None, CLOSING)
    assert store.relocate(None, CLOSING)[:2] == (True, CLOSING)
    step(store, CLOSING, CLOSED)
    assert store.relocate(CLOSING, CLOSED).done
    step(store, CLOSED, None)
    assert store.relocate(CLOSED, None).done


def test_step_of_another_move_is_not_done(store: Store) -> None:
    step(store, None, CLOSING)
    mine = at(Stage.CLOSING, "n" * 26)
    assert store.relocate(None, mine)[:2] == (False, CLOSING)
    assert store.relocate(mine, None)[:2] == (False, CLOSING)
    assert store.relocate(CLOSED, MOVED)[:2] == (False, CLOSING)
    assert store.relocation() == (CLOSING, "")


@pytest.mark.parametrize("what", ["job", "session"])
def test_store_in_use_is_not_filled(store: Store, what: str) -> None:
    if what == "job":
        store.cancel(add(store))
    else:
        Holder(store)
    answer = store.relocate(None, ARRIVING)
    assert not answer.done
    assert (answer.jobs, answer.sessions) == ((1, 0) if what == "job" else (0, 1))
    add(store)


# -- the cargo


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
