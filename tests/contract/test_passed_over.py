"""A claim says what it passed over for its host: so nobody takes that for nothing to do."""

from contextlib import closing
from dataclasses import replace

import pytest
from contract.driver import BACKENDS, SECOND, Holder, add, add_many
from contract.gates import CORE, GIB, ROOM, Gated
from contract.test_permits import caller
from contract.test_reservations import crowd

from limpet.domain.permit import PassedOver, Room
from limpet.domain.queue import QueueRules
from limpet.domain.rate import Rate
from limpet.domain.transition import Complete
from limpet.domain.weight import HEAVY, Weight
from limpet.storage.contract.answers import Exchanged
from limpet.storage.contract.store import Store, Want
from limpet.storage.postgres.store import PostgresStore
from limpet.testing.clock import FakeClock

NOTHING, FOR_EVER, FOR_NOW = PassedOver.NOTHING, PassedOver.FOR_EVER, PassedOver.FOR_NOW
TOO_MUCH = Weight(memory=9 * GIB)
NO_OTHER = "claims come one after the other, so nobody else can be at the gate"
WEIGHTS = {"render": CORE, "huge": TOO_MUCH, "index": HEAVY}


def ask(holder: Gated, room: Room | None = None, total: int = 10) -> Exchanged:
    """Claim, and say the same again: whoever heard nothing must not hear anything else."""
    want = Want((holder.pool(total),), holder.gate(room))
    answer = holder.exchange(want=want)
    again = holder.store.exchange(holder.id, holder.seq, (), want)
    assert sorted(each.lease for each in again.claimed) == sorted(
        each.lease for each in answer.claimed
    )
    assert replace(again, claimed=()) == replace(answer, claimed=())
    return answer


def passed_over(holder: Gated, room: Room | None = None) -> PassedOver:
    return ask(holder, room).passed_over


def test_claim_that_takes_all_there_is_passed_over_nothing(store: Store) -> None:
    add_many(store, 2, task="render")
    add(store)
    holder = Gated(store, WEIGHTS)
    assert len(ask(holder).claimed) == 3
    assert passed_over(holder) is NOTHING


@pytest.mark.parametrize("by_weight", [False, True], ids=["in line", "by weight"])
def test_claim_says_that_ready_jobs_wait_for_their_host(store: Store, by_weight: bool) -> None:
    if by_weight:
        store.limit_queue("other", QueueRules(weight=3))
    jobs = add_many(store, 5, task="render")
    add(store, queue="other")
    holder = Gated(store, WEIGHTS)
    first = ask(holder)
    assert (len(first.claimed), first.passed_over) == (5, FOR_NOW)
    second = ask(holder)
    assert (second.claimed, second.passed_over) == ((), FOR_NOW)
    done = next(each.lease for each in first.claimed if each.lease.job == jobs[0])
    want = Want((holder.pool(),), holder.gate())
    last = holder.exchange(Complete(done), want=want)
    assert (len(last.claimed), last.passed_over) == (1, NOTHING)


@pytest.mark.parametrize(
    "room",
    [ROOM._replace(free_cpu=0), ROOM._replace(calm=False, free_cpu=0, free_memory=0)],
    ids=["busy", "not seen yet"],
)
def test_busy_host_passes_over_for_now(store: Store, room: Room) -> None:
    add(store, task="render")
    add(store, task="index")
    holder = Gated(store, WEIGHTS)
    ask(holder, room)
    assert passed_over(holder, room) is FOR_NOW


def test_what_the_host_could_never_carry_is_passed_over_for_ever(store: Store) -> None:
    add(store, task="huge")
    add(store)
    holder = Gated(store, WEIGHTS)
    answer = ask(holder)
    assert (len(answer.claimed), answer.passed_over) == (1, FOR_EVER)
    assert passed_over(holder) is FOR_EVER


@pytest.mark.parametrize("tasks", [("huge", "render"), ("render", "huge")])
def test_what_may_begin_later_counts_more_than_what_never_can(
    store: Store, tasks: tuple[str, str]
) -> None:
    for task in tasks:
        add(store, task=task)
    assert passed_over(Gated(store, WEIGHTS), ROOM._replace(free_cpu=0)) is FOR_NOW


def test_what_waits_behind_a_reservation_is_passed_over_for_now(
    store: Store, clock: FakeClock
) -> None:
    holder, _ = crowd(store, clock)
    assert passed_over(holder) is FOR_NOW
    other = Gated(store, {"small": CORE})
    assert passed_over(other) is NOTHING
    add(store, task="small")
    assert passed_over(other) is FOR_NOW


def test_callers_keep_jobs_waiting_for_now(store: Store) -> None:
    assert store.take_permit(caller(store), HEAVY, ROOM)
    add(store, task="render")
    assert passed_over(Gated(store, WEIGHTS)) is FOR_NOW


@pytest.mark.not_on("sqlite-file", NO_OTHER)
@pytest.mark.not_on("sqlite-memory", NO_OTHER)
@pytest.mark.not_on("redis", NO_OTHER)
@pytest.mark.not_on("valkey", NO_OTHER)
@pytest.mark.parametrize("backend", sorted(each for each in BACKENDS if "postgres" in each))
def test_claim_that_meets_somebody_else_at_the_gate_passes_over_for_now(store: Store) -> None:
    """Who asks then hears nothing of what is in line, and must not take that for nothing."""
    assert isinstance(store, PostgresStore)
    weighted, light = add(store, task="render"), add(store)
    holder = Gated(store, WEIGHTS)
    with closing(store._db.connect()) as other, other.transaction():
        other.execute("SELECT limpet.v1_enter(%s)", [ROOM.server])
        for claimed in ([light], []):
            answer = ask(holder)
            assert [each.lease.job for each in answer.claimed] == claimed
            assert answer.passed_over is FOR_NOW
    answer = ask(holder)
    assert [each.lease.job for each in answer.claimed] == [weighted]
    assert answer.passed_over is NOTHING


def test_without_a_gate_nothing_is_passed_over(store: Store) -> None:
    add_many(store, 2, task="huge")
    holder = Holder(store, ["huge"])
    answer = holder.exchange(want=holder.want(1))
    assert (len(answer.claimed), answer.passed_over) == (1, NOTHING)


def test_exchange_that_asks_for_nothing_passes_over_nothing(store: Store) -> None:
    add(store, task="huge")
    holder = Gated(store, WEIGHTS)
    assert passed_over(holder) is FOR_EVER
    assert holder.exchange().passed_over is NOTHING
    assert store.exchange(holder.id, holder.seq, (), None).passed_over is NOTHING


def test_repeat_says_the_same_of_what_a_rate_keeps_back(store: Store, clock: FakeClock) -> None:
    store.limit_queue("default", QueueRules(rate=Rate(2, SECOND, 1)))
    add_many(store, 3)
    answer = ask(Gated(store, WEIGHTS))
    assert answer.next_at == clock.wall() + SECOND // 2
