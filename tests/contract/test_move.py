"""relocate: a store is closed for a move, and opened again; what it refuses meanwhile."""

from collections.abc import Callable
from datetime import timedelta

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
from contract.everything import seen
from contract.moving import ARRIVING, CLOSED, CLOSING, MOVED, at, step

from limpet.domain.breaker import BreakerRules
from limpet.domain.cause import Drained
from limpet.domain.errors import LimpetError, StoreMoved
from limpet.domain.job import LogLine, NewJob, Report
from limpet.domain.lease import Lease
from limpet.domain.queue import DEFAULT_RETENTION, QueueRules
from limpet.domain.schedule import Schedule, Timing
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail
from limpet.storage.contract.relocation import MoveStage, Relocation
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

LIMIT = QueueRules(concurrency=1)
SCHEDULE = Schedule(
    id="s", job=NewJob("", "task", "{}"), timing=Timing(every=SECOND), next_at=1, changed_at=1
)
BREAKER = BreakerRules("crm", frozenset({"task"}), 0.5, 4, SECOND, SECOND)

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
        "stage": lambda: store.stage(new_id(), 0, [new_job()]),
        "commit": lambda: store.commit(new_id(), 1),
        "declare_queues": lambda: store.declare_queues({"default": LIMIT}),
        "limit_queue": lambda: store.limit_queue("default", LIMIT),
        "hold_queue": lambda: store.hold_queue("default", 2**60),
        "limit_key": lambda: store.limit_key("k", 2),
        "drain_queue": lambda: store.drain_queue("default"),
        "declare_breakers": lambda: store.declare_breakers([BREAKER]),
        "reset_breaker": lambda: store.reset_breaker(BREAKER.name),
        "repair": lambda: store.repair(job, "{}", 1, ()),
        "requeue": lambda: store.requeue([job], "other"),
        "put_schedule": lambda: store.put_schedule(SCHEDULE),
        "remove_schedule": lambda: store.remove_schedule("s"),
        "pause_schedule": lambda: store.pause_schedule("s"),
        "tick": lambda: store.tick(SCHEDULE, [SCHEDULE.job_of(1)], 2),
        "skip": lambda: store.tick(SCHEDULE, [], 2),
        "trigger": lambda: store.trigger(SCHEDULE, SCHEDULE.job_at(new_id(), 1)),
    }


@pytest.mark.parametrize("stages", [(CLOSING, CLOSED), (CLOSING, CLOSED, MOVED)], ids=len)
def test_store_that_is_closed_is_not_written(
    store: Store, clock: FakeClock, stages: tuple[Relocation, ...]
) -> None:
    store.declare_breakers([BREAKER])
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
        if name in ("enqueue", "register", "promote", "prune", "pause", "stage", "limit_queue"):
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
    mine = at(MoveStage.CLOSING, "n" * 26)
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
