"""Keys, uniques and limits on PostgreSQL: what a user's own transaction does, and who waits."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from contract.driver import BOOM, Holder, add, add_many, new_job, promote_all, state, states
from servers.empty import empty_postgres

from limpet.domain.errors import LimpetError
from limpet.domain.lease import Lease
from limpet.domain.queue import QueueRules
from limpet.domain.rules import Rules
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail
from limpet.storage.postgres.store import PostgresStore

# Far below the time for which a lock is waited for.
AT_ONCE_SECONDS = 3.0
KEY = "customer:42"


@pytest.fixture
def url() -> str:
    return empty_postgres("postgres")


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as own:
        yield own
        assert own.invariants() == ()


@pytest.fixture
def user(url: str) -> Iterator[psycopg.Connection]:
    with closing(psycopg.connect(url)) as connection:
        yield connection


def test_job_with_a_key_in_an_open_transaction_keeps_nobody_waiting(
    store: PostgresStore, user: psycopg.Connection
) -> None:
    first, second = add(store, key=KEY), add(store, key=KEY)
    holder = Holder(store)
    lease = holder.take()
    (within,) = store.enqueue_within(user, [new_job(key=KEY)])
    assert within.state is State.BLOCKED
    began = time.monotonic()
    holder.renew()
    answer = holder.exchange(Complete(lease), want=holder.want())
    assert [each.lease.job for each in answer.claimed] == [second]
    third = add(store, key=KEY)
    store.promote()
    assert time.monotonic() - began < AT_ONCE_SECONDS
    user.commit()
    assert states(store, [first, second, third]) == [
        State.SUCCEEDED, State.RUNNING, State.BLOCKED
    ]  # fmt: skip
    holder.settle(Complete(answer.claimed[0].lease))
    assert sorted(states(store, [within.job, third])) == [State.BLOCKED, State.READY]


def test_job_with_a_free_key_in_a_users_transaction_has_its_turn_after_the_commit(
    store: PostgresStore, user: psycopg.Connection
) -> None:
    holder = Holder(store)
    (within,) = store.enqueue_within(user, [new_job(key=KEY)])
    assert holder.claim() == ()
    user.commit()
    assert holder.claim_ids() == [within.job]


def test_unique_in_an_open_transaction_keeps_only_its_like_waiting(
    store: PostgresStore, user: psycopg.Connection
) -> None:
    old = add(store, unique="u", rules=Rules(replaces=True))
    holder = Holder(store)
    lease = holder.take()
    assert lease.job == old
    (within,) = store.enqueue_within(user, [new_job(unique="u", rules=Rules(replaces=True))])
    assert within.outcome == "new"
    answers: list[object] = []
    other = threading.Thread(target=lambda: answers.extend(store.enqueue([new_job(unique="u")])))
    other.start()
    began = time.monotonic()
    assert holder.settle(Complete(lease)) == ()
    add(store, unique="another")
    store.promote()
    assert time.monotonic() - began < AT_ONCE_SECONDS
    assert answers == []
    user.commit()
    other.join(10)
    assert [(each.job, each.outcome) for each in answers] == [(within.job, "duplicate")]  # type: ignore[attr-defined]


def test_turn_of_a_job_that_was_replaced_in_a_users_transaction_goes_to_the_next(
    store: PostgresStore, user: psycopg.Connection
) -> None:
    old = add(store, key=KEY, unique="u")
    waiting = add(store, key=KEY)
    (within,) = store.enqueue_within(user, [new_job(unique="u", rules=Rules(replaces=True))])
    assert store.invariants() == ()
    user.commit()
    assert store.invariants() == ()
    promote_all(store)
    assert states(store, [old, waiting, within.job]) == [
        State.CANCELLED, State.READY, State.READY
    ]  # fmt: skip


def test_job_that_was_replaced_in_a_users_transaction_can_be_opened_again_at_once(
    store: PostgresStore, user: psycopg.Connection
) -> None:
    old = add(store, key=KEY, unique="u")
    (within,) = store.enqueue_within(user, [new_job(unique="u", rules=Rules(replaces=True))])
    user.commit()
    store.cancel(within.job)
    assert store.retry(old, 1) == 2
    assert store.invariants() == ()
    assert state(store, old) is State.READY


def test_relaunch_does_not_wait_for_a_unique_in_an_open_transaction(
    store: PostgresStore, user: psycopg.Connection
) -> None:
    old, due = add(store, unique="u"), add(store, scheduled_for=time.time_ns() // 1000 + 500_000)
    holder = Holder(store)
    holder.settle(Fail(holder.take(), BOOM, relaunch_at=1))
    store.enqueue_within(user, [new_job(unique="u")])
    began = time.monotonic()
    while state(store, due) is not State.READY:
        store.promote()
        assert time.monotonic() - began < AT_ONCE_SECONDS
    assert state(store, old) is State.FAILED
    user.rollback()
    promote_all(store)
    assert state(store, old) is State.READY


def test_many_that_share_keys_in_every_order_do_not_lock_each_other_out(
    url: str, store: PostgresStore
) -> None:
    """Exchanges that end jobs of the same keys, and enqueuers, lock them in one order."""
    keys = [f"k{number}" for number in range(20)]
    two = Rules(key_limit=2)
    errors: list[LimpetError] = []
    done = threading.Event()

    def work(turn: int) -> None:
        holder = Holder(store)
        order = keys if turn % 2 else keys[::-1]
        try:
            while not done.is_set():
                store.enqueue([new_job(key=key, rules=two) for key in order])
                leases = [each.lease for each in holder.claim(15)]
                assert holder.settle(*(Complete(lease) for lease in leases[::-1])) == ()
        except LimpetError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(4)]
    with closing(psycopg.connect(url, autocommit=True)) as raw:
        count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        before = raw.execute(count).fetchone()
        for thread in threads:
            thread.start()
        time.sleep(4)
        done.set()
        for thread in threads:
            thread.join(30)
        assert errors == []
        raw.execute("SELECT pg_stat_clear_snapshot()")
        assert raw.execute(count).fetchone() == before
    holder = Holder(store)
    while claimed := holder.claim(200):
        holder.settle(*(Complete(each.lease) for each in claimed))
    assert store.queues()[0].counts.keys() == {State.SUCCEEDED}


def test_concurrency_is_kept_by_workers_that_claim_at_the_same_time(store: PostgresStore) -> None:
    add_many(store, 60)
    store.limit_queue("default", QueueRules(concurrency=5))
    most: list[int] = []

    def work() -> None:
        holder = Holder(store)
        for _ in range(12):
            claimed = holder.claim(4)
            running = store.queues()[0].counts.get(State.RUNNING, 0)
            most.append(running)
            holder.settle(*(Complete(each.lease) for each in claimed))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert 0 < max(most) <= 5


def test_job_whose_key_is_strange_waits_in_the_line_of_that_key_only(store: PostgresStore) -> None:
    for key in ("a", "a\x1f", "a ", "aa", "ä"):
        first, second = add(store, key=key), add(store, key=key)
        assert (state(store, first), state(store, second)) == (State.READY, State.BLOCKED)


def test_siblings_that_fail_at_once_do_not_wait_for_each_other(
    url: str, store: PostgresStore
) -> None:
    """Each stops the other, whose own end is just being told by somebody who wants the parent."""
    first, second = Holder(store), Holder(store)
    count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    with closing(psycopg.connect(url, autocommit=True)) as raw:
        before = raw.execute(count).fetchone()
        for _ in range(20):
            parent = new_job(rules=Rules(children=2))
            store.enqueue([parent, new_job(parent=parent.id), new_job(parent=parent.id)])
            start = threading.Barrier(2)

            def fail(holder: Holder, lease: Lease, start: threading.Barrier = start) -> None:
                start.wait()
                holder.settle(Fail(lease, BOOM))

            told = [
                threading.Thread(target=fail, args=(holder, holder.take()))
                for holder in (first, second)
            ]
            for thread in told:
                thread.start()
            for thread in told:
                thread.join()
            assert state(store, parent.id) is State.FAILED
        raw.execute("SELECT pg_stat_clear_snapshot()")
        assert raw.execute(count).fetchone() == before
    promote_all(store)
    assert store.queues()[0].counts.keys() == {State.FAILED}
