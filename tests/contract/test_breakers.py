"""Breakers: work whose dependency fails is held back, tried one at a time, and let flow again."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from contract.driver import BOOM, MINUTE, SECOND, Holder, add, add_many, state, states

from limpet.domain.breaker import MOST_TRIES, BreakerRules, BreakerState, BreakerStatus, Observed
from limpet.domain.lease import Lease
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

CLOSED, OPEN, PROBING = BreakerState
RULES = BreakerRules(
    "crm", frozenset({"task", "other"}), failure_rate=0.5, least=4, window=MINUTE,
    probe_after=10 * SECOND,
)  # fmt: skip


@pytest.fixture
def holder(store: Store) -> Holder:
    return Holder(store, ["task", "other", "plain"], lease=timedelta(hours=9))


@pytest.fixture(autouse=True)
def declared(store: Store) -> None:
    store.declare_breakers([RULES])


def breaker(store: Store, name: str = "crm") -> BreakerStatus:
    return next(each for each in store.breakers() if each.rules.name == name)


def saw(succeeded: int, failed: int, name: str = "crm") -> Observed:
    return Observed(name, succeeded, failed)


def won(lease: Lease) -> Observed:
    """An attempt that succeeded."""
    return Observed("crm", 1, 0, ((lease.job, lease.token, True),))


def lost(lease: Lease) -> Observed:
    """One that failed."""
    return Observed("crm", 0, 1, ((lease.job, lease.token, False),))


def trip(holder: Holder) -> None:
    """Open it."""
    holder.exchange(observed=[saw(0, 4)])
    assert breaker(holder.store).state is OPEN


def test_new_breaker_is_closed(store: Store) -> None:
    (found,) = store.breakers()
    assert (found.rules, found.state) == (RULES, CLOSED)
    assert (found.succeeded, found.failed, found.opened_at, found.probe_at) == (0, 0, None, None)


def test_breakers_are_told_by_name(store: Store) -> None:
    others = [replace(RULES, name=name, tasks=frozenset({name})) for name in ("zoo", "api")]
    store.declare_breakers(others)
    assert [each.rules.name for each in store.breakers()] == ["api", "crm", "zoo"]


def test_breaker_counts_what_holders_saw(store: Store, holder: Holder) -> None:
    holder.exchange(observed=[saw(2, 0)])
    Holder(store).exchange(observed=[saw(0, 1)])
    found = breaker(store)
    assert (found.state, found.succeeded, found.failed) == (CLOSED, 2, 1)


def test_breaker_opens_at_its_failure_rate_and_holds_its_tasks_back(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    held = [add(store, "task"), add(store, "other")]
    plain = add(store, "plain")
    holder.exchange(observed=[saw(2, 1)])
    now = clock.wall()
    answer = holder.exchange(want=holder.want(), observed=[saw(0, 1)])
    found = breaker(store)
    assert (found.state, found.opened_at, found.probe_at) == (OPEN, now, now + 10 * SECOND)
    assert [each.lease.job for each in answer.claimed] == [plain]
    assert answer.next_at == now + 10 * SECOND
    assert states(store, held) == [State.READY, State.READY]
    assert Holder(store, ["task"]).claim() == ()


def test_too_few_attempts_open_nothing(store: Store, holder: Holder) -> None:
    jobs = add_many(store, 3)
    holder.exchange(observed=[saw(0, 3)])
    assert breaker(store).state is CLOSED
    assert holder.claim_ids() == jobs


def test_failures_of_an_old_window_are_forgotten(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    holder.exchange(observed=[saw(0, 3)])
    clock.advance(timedelta(minutes=1))
    holder.exchange(observed=[saw(0, 1)])
    found = breaker(store)
    assert (found.state, found.failed, found.window_at) == (CLOSED, 1, clock.wall())


def test_one_job_at_a_time_is_tried_after_a_while(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    jobs = add_many(store, 5)
    trip(holder)
    clock.advance(timedelta(microseconds=10 * SECOND - 1))
    assert holder.claim() == ()
    clock.advance(timedelta(microseconds=1))
    answer = holder.exchange(want=holder.want())
    assert [each.lease.job for each in answer.claimed] == jobs[:1]
    assert answer.next_at == clock.wall() + 10 * SECOND
    found = breaker(store)
    assert (found.state, found.probe_at) == (PROBING, clock.wall() + 10 * SECOND)
    assert holder.claim() == ()
    assert Holder(store).claim() == ()
    clock.advance(timedelta(seconds=10))
    assert holder.claim_ids() == jobs[1:2]


def test_probe_is_one_job_for_all_tasks_and_queues(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    for task in ("task", "other"):
        for queue in ("a", "b"):
            add(store, task, queue=queue)
    trip(holder)
    clock.advance(timedelta(seconds=10))
    assert len(holder.claim()) == 1
    assert holder.claim() == ()


def test_first_success_closes_it(store: Store, holder: Holder, clock: FakeClock) -> None:
    jobs = add_many(store, 3)
    trip(holder)
    clock.advance(timedelta(seconds=10))
    lease = holder.take()
    assert breaker(store).tries == ((lease.job, lease.token),)
    answer = holder.exchange(Complete(lease), want=holder.want(), observed=[won(lease)])
    assert [each.lease.job for each in answer.claimed] == jobs[1:]
    found = breaker(store)
    assert (found.state, found.succeeded, found.failed) == (CLOSED, 0, 0)
    assert (found.opened_at, found.probe_at, found.tries) == (None, None, ())


def test_success_of_what_was_under_way_when_it_opened_does_not_close_it(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    """Where one attempt in two fails, it would flutter else."""
    add_many(store, 2)
    lease = holder.take()
    trip(holder)
    before = breaker(store)
    clock.advance(timedelta(seconds=3))
    answer = holder.exchange(Complete(lease), want=holder.want(), observed=[saw(1, 1)])
    assert (answer.claimed, breaker(store)) == ((), before)


@pytest.mark.parametrize("outcome", [won, lost])
def test_what_began_before_it_opened_decides_nothing_while_another_is_tried(
    store: Store, holder: Holder, clock: FakeClock, outcome: Callable[[Lease], Observed]
) -> None:
    """Actors: an attempt from before, the probe. The first ends while the second is under way."""
    add_many(store, 3)
    early = holder.take()
    trip(holder)
    clock.advance(timedelta(seconds=10))
    probe = holder.take()
    before = breaker(store)
    assert before.state is PROBING
    clock.advance(timedelta(seconds=3))
    answer = holder.exchange(Complete(early), want=holder.want(), observed=[outcome(early)])
    assert (answer.claimed, breaker(store)) == ((), before)
    holder.exchange(Complete(probe), observed=[won(probe)])
    assert breaker(store).state is CLOSED


def test_earlier_attempt_of_the_job_that_is_tried_is_not_the_try(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    add(store)
    early = holder.take()
    holder.release(early, cause=BOOM)
    trip(holder)
    clock.advance(timedelta(seconds=10))
    probe = holder.take()
    assert (probe.job, probe.token > early.token) == (early.job, True)
    holder.exchange(observed=[won(early)])
    assert breaker(store).state is PROBING


def test_try_that_takes_longer_than_the_wait_for_the_next_one_still_closes_it(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    add_many(store, 3)
    trip(holder)
    clock.advance(timedelta(seconds=10))
    slow = holder.take()
    clock.advance(timedelta(seconds=10))
    failing = holder.take()
    holder.exchange(Fail(failing, BOOM), observed=[lost(failing)])
    found = breaker(store)
    assert (found.state, found.tries) == (OPEN, ((slow.job, slow.token),))
    holder.exchange(Complete(slow), observed=[won(slow)])
    assert breaker(store).state is CLOSED


def test_no_more_tries_are_remembered_than_are_needed(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    add_many(store, MOST_TRIES + 2)
    trip(holder)
    taken = []
    for _ in range(MOST_TRIES + 2):
        clock.advance(timedelta(seconds=10))
        taken.append(holder.take())
    assert breaker(store).tries == tuple((each.job, each.token) for each in taken[2:])


def test_probe_that_fails_keeps_it_open(store: Store, holder: Holder, clock: FakeClock) -> None:
    add_many(store, 3)
    opened = clock.wall()
    trip(holder)
    clock.advance(timedelta(seconds=10))
    lease = holder.take()
    clock.advance(timedelta(seconds=3))
    holder.exchange(Fail(lease, BOOM), observed=[lost(lease)])
    found = breaker(store)
    assert (found.state, found.opened_at, found.tries) == (OPEN, opened, ())
    assert found.probe_at == clock.wall() + 10 * SECOND
    clock.advance(timedelta(seconds=9))
    assert holder.claim() == ()
    clock.advance(timedelta(seconds=1))
    assert len(holder.claim()) == 1


def test_probe_that_nobody_tells_of_is_followed_by_another(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    jobs = add_many(store, 2)
    trip(holder)
    clock.advance(timedelta(seconds=10))
    dying = Holder(store)
    dying.take(begin=True)
    dying.vanish()
    assert holder.claim() == ()
    clock.advance(timedelta(seconds=10))
    assert holder.claim_ids() == jobs[:1]


def test_what_is_seen_counts_though_the_settlement_is_too_late(
    store: Store, holder: Holder
) -> None:
    add_many(store, 4)
    dying = Holder(store)
    leases = [each.lease for each in dying.claim()]
    for lease in leases:
        dying.release(lease, cause=BOOM)
    answer = dying.exchange(*(Fail(each, BOOM) for each in leases), observed=[saw(0, 4)])
    assert len(answer.rejected) == 4
    assert breaker(store).state is OPEN


def test_repeat_of_an_exchange_is_not_counted_again(store: Store, holder: Holder) -> None:
    holder.exchange(observed=[saw(0, 3)])
    for _ in range(2):
        store.exchange(holder.id, holder.seq, (), None, (), [saw(0, 3)])
    assert (breaker(store).state, breaker(store).failed) == (CLOSED, 3)


def test_breaker_that_is_not_declared_is_passed_over(store: Store, holder: Holder) -> None:
    job = add(store)
    answer = holder.exchange(want=holder.want(), observed=[saw(0, 99, "nobody's")])
    assert [each.lease.job for each in answer.claimed] == [job]
    assert [each.rules.name for each in store.breakers()] == ["crm"]


def test_jobs_that_run_are_left_alone_by_a_breaker_that_opens(store: Store, holder: Holder) -> None:
    add(store)
    lease = holder.take()
    trip(holder)
    assert holder.settle(Complete(lease)) == ()
    assert state(store, lease.job) is State.SUCCEEDED


def test_declared_anew_it_keeps_its_state(store: Store, holder: Holder, clock: FakeClock) -> None:
    trip(holder)
    before = breaker(store)
    store.declare_breakers([RULES])
    assert breaker(store) == before
    other = replace(RULES, tasks=frozenset({"task"}), least=9)
    store.declare_breakers([other])
    assert breaker(store) == replace(before, rules=other)
    add(store, "task")
    free = add(store, "other")
    assert holder.claim_ids() == [free]


def test_breaker_that_is_not_declared_again_stays(store: Store) -> None:
    store.declare_breakers([replace(RULES, name="api", tasks=frozenset({"plain"}))])
    store.declare_breakers([])
    assert [each.rules.name for each in store.breakers()] == ["api", "crm"]


def test_person_can_close_it(store: Store, holder: Holder, clock: FakeClock) -> None:
    jobs = add_many(store, 2)
    trip(holder)
    assert store.reset_breaker("crm") is True
    assert breaker(store).state is CLOSED
    assert holder.claim_ids(1) == jobs[:1]
    trip(holder)
    clock.advance(timedelta(seconds=10))
    assert holder.claim_ids() == jobs[1:]
    assert breaker(store).state is PROBING
    assert store.reset_breaker("crm") is True
    found = breaker(store)
    assert (found.state, found.probe_at, found.tries) == (CLOSED, None, ())
    assert store.reset_breaker("nobody's") is False


def test_open_breaker_does_not_take_the_room_of_others(store: Store, holder: Holder) -> None:
    add_many(store, 30)
    plain = [add(store, "plain") for _ in range(3)]
    trip(holder)
    assert holder.claim_ids(3) == plain


def test_keyed_job_that_is_held_back_keeps_its_turn(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    first, second = add(store, key="k"), add(store, "plain", key="k")
    trip(holder)
    assert holder.claim() == ()
    assert states(store, [first, second]) == [State.READY, State.BLOCKED]


@pytest.mark.parametrize("left", [frozenset({"other"}), frozenset[str]()], ids=["some", "none"])
def test_task_that_left_an_open_breaker_is_not_held_back(
    store: Store, holder: Holder, left: frozenset[str]
) -> None:
    trip(holder)
    job = add(store, "task")
    assert holder.claim() == ()
    store.declare_breakers([replace(RULES, tasks=left)])
    assert [each.lease.job for each in holder.claim()] == [job]
    assert breaker(store).rules.tasks == left
