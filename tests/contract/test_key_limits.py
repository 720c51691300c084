"""key_limit and limit_key: how many jobs of a key are under way at once."""

from datetime import timedelta

from contract.driver import BOOM, SECOND, Holder, add, counts, state, states
from contract.keys import KEY, keyed

from limpet.domain.rate import rate_of
from limpet.domain.rules import Rules
from limpet.domain.state import State
from limpet.domain.transition import Complete, RetryAt
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock

BLOCKED, READY, RUNNING = State.BLOCKED, State.READY, State.RUNNING
TWO = Rules(key_limit=2)

# -- more than one at a time


def test_key_limit_says_how_many_are_under_way(store: Store, holder: Holder) -> None:
    jobs = keyed(store, 4, rules=TWO)
    assert states(store, jobs) == [READY, READY, BLOCKED, BLOCKED]
    leases = [each.lease for each in holder.claim()]
    assert [lease.job for lease in leases] == jobs[:2]
    holder.settle(Complete(leases[1]))
    assert states(store, jobs[2:]) == [READY, BLOCKED]
    holder.settle(Complete(leases[0]), Complete(holder.take()))
    assert state(store, jobs[3]) is READY


def test_each_job_is_held_to_its_own_limit(store: Store, holder: Holder) -> None:
    one = add(store, key=KEY)
    two, three = keyed(store, 2, rules=TWO)
    assert states(store, [one, two, three]) == [READY, READY, BLOCKED]
    strict = add(store, key=KEY)
    leases = [each.lease for each in holder.claim()]
    holder.settle(Complete(leases[0]))
    assert states(store, [three, strict]) == [READY, BLOCKED]
    holder.settle(Complete(leases[1]))
    assert state(store, strict) is BLOCKED
    holder.settle(Complete(holder.take()))
    assert state(store, strict) is READY


def test_job_with_a_low_limit_is_not_overtaken_for_ever(store: Store, holder: Holder) -> None:
    running = keyed(store, 2, rules=TWO)
    alone = add(store, key=KEY)
    leases = [each.lease for each in holder.claim()]
    assert [lease.job for lease in leases] == running
    holder.settle(Complete(leases[0]))
    newcomer = add(store, key=KEY, rules=TWO)
    assert states(store, [alone, newcomer]) == [BLOCKED, BLOCKED]
    holder.settle(Complete(leases[1]))
    assert states(store, [alone, newcomer]) == [READY, READY]


def test_hundred_jobs_of_one_call_and_one_key_come_one_by_one(store: Store, holder: Holder) -> None:
    jobs = keyed(store, 100)
    done: list[str] = []
    settled: list[Complete] = []
    while True:
        claimed = holder.exchange(*settled, want=holder.want(10)).claimed
        if not claimed:
            break
        (one,) = claimed
        done.append(one.lease.job)
        settled = [Complete(one.lease)]
    assert done == jobs


# -- limits set at run time


def test_limit_set_for_a_key_counts_for_all_its_jobs(store: Store, holder: Holder) -> None:
    jobs = keyed(store, 5)
    store.limit_key(KEY, 3)
    assert states(store, jobs) == [READY] * 3 + [BLOCKED] * 2
    store.limit_key(KEY, 3)
    assert states(store, jobs) == [READY] * 3 + [BLOCKED] * 2
    assert state(store, add(store, key="other")) is READY


def test_limit_set_for_a_key_can_be_read(store: Store) -> None:
    keyed(store, 2, rules=TWO)
    assert store.key_limit(KEY) == store.key_limit("unknown") == (None, None)
    store.limit_key(KEY, 3, rate_of("5/m"))
    assert store.key_limit(KEY) == (3, rate_of("5/m"))
    store.limit_key(KEY, None, rate_of("5/m"))
    assert store.key_limit(KEY) == (None, rate_of("5/m"))
    store.limit_key(KEY, None)
    assert store.key_limit(KEY) == (None, None)


def test_lower_limit_of_a_key_takes_no_turn_away(store: Store, holder: Holder) -> None:
    jobs = keyed(store, 4, rules=TWO)
    leases = [each.lease for each in holder.claim()]
    store.limit_key(KEY, 1)
    assert states(store, jobs) == [RUNNING, RUNNING, BLOCKED, BLOCKED]
    holder.settle(Complete(leases[0]))
    assert state(store, jobs[2]) is BLOCKED
    holder.settle(Complete(leases[1]))
    assert states(store, jobs[2:]) == [READY, BLOCKED]


def test_limit_of_a_key_that_is_taken_back_leaves_what_jobs_say(
    store: Store, holder: Holder
) -> None:
    jobs = keyed(store, 4, rules=TWO)
    store.limit_key(KEY, 1)
    holder.settle(*(Complete(each.lease) for each in holder.claim()))
    assert states(store, jobs[2:]) == [READY, BLOCKED]
    store.limit_key(KEY, None)
    assert states(store, jobs[2:]) == [READY, READY]


def test_raised_limit_gives_at_most_a_thousand_turns_in_a_step(store: Store) -> None:
    for _ in range(2):
        keyed(store, 600)
    store.limit_key(KEY, 5_000)
    assert counts(store) == {READY: CHUNK + 1, BLOCKED: 199}
    store.limit_key(KEY, 5_000)
    assert counts(store) == {READY: 1_200}


def test_job_that_is_due_when_a_turn_lapses_is_not_left_waiting_beside_a_free_one(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    soon = clock.wall() + SECOND
    due = add(store, key=KEY, rules=TWO)
    holder.settle(RetryAt(holder.take(), soon, BOOM))
    late = add(store, key=KEY, deadline_at=soon + 2)
    assert states(store, [due, late]) == [State.SCHEDULED, READY]
    clock.advance(timedelta(microseconds=SECOND + 1))
    add(store, key=KEY)
    clock.advance(timedelta(microseconds=1))
    assert store.promote().lapsed == 1
    # Whichever of the two came first, the one that was due may be the second.
    assert states(store, [due, late]) == [READY, State.FAILED]
