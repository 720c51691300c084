"""PostgreSQL while another's transaction is open: who waits for whom, and what is missed."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from contract.driver import EVERY_BACKEND, Holder, add, add_many, get, new_id, new_job

from limpet.domain.cause import Drained
from limpet.domain.errors import LeaseLost
from limpet.domain.queue import QueueRules
from limpet.domain.rules import Rules
from limpet.domain.session import Standing
from limpet.domain.state import State
from limpet.domain.transition import Complete, Rejected
from limpet.storage.contract.store import ANY_QUEUE
from limpet.storage.postgres import database, exchange, session
from limpet.storage.postgres.enqueue import enqueue_capped, enqueue_under
from limpet.storage.postgres.store import PostgresStore
from limpet.storage.postgres.transaction import Transaction

_PATIENCE_SECONDS = 30
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return EVERY_BACKEND["postgres"](tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as store:
        yield store
        assert store.invariants() == ()


@pytest.fixture
def raw(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@contextmanager
def uncommitted(store: PostgresStore) -> Iterator[Transaction]:
    """A transaction that is open as long as the block lasts, and is then committed."""
    with closing(store._db.connect()) as connection:
        connection.execute("SET idle_in_transaction_session_timeout = 0")
        with connection.transaction():
            yield Transaction(connection, store._location, None)


def begin(step: Callable[[], object], raw: psycopg.Connection) -> threading.Thread:
    """Begin a step beside, and come back when it is done or waits for a lock."""
    thread = threading.Thread(target=step)
    thread.start()
    until = time.monotonic() + _PATIENCE_SECONDS
    while thread.is_alive() and raw.execute(_WAITING).fetchone() == (0,):
        assert time.monotonic() < until
        thread.join(0.005)
    return thread


def test_tasks_of_a_session_that_begins_are_not_forgotten_with_an_old_one(
    store: PostgresStore, raw: psycopg.Connection
) -> None:
    old = Holder(store, ["a", "b"])
    store.end(old.id, Drained())
    raw.execute("UPDATE limpet.session SET ended_at = 0")
    new = replace(old.new, id=new_id())
    with uncommitted(store) as tx:
        session.register(tx, new)
        prune = begin(lambda: store.prune({}), raw)
    prune.join()
    assert [each.id for each in store.sessions(with_dead=True)] == [new.id]
    job = add(store, "a")
    assert Holder(store, ["a", "b"], session=new.id).claim_ids() == [job]


def test_claimers_of_several_tasks_are_given_what_others_do_not_take(store: PostgresStore) -> None:
    jobs = {add(store, task) for _ in range(40) for task in ("a", "b")}
    Holder(store).claim(0)  # so that the store knows its server
    holders = [Holder(store, ["a", "b"]) for _ in range(5)]
    taken: list[str] = []
    with ExitStack() as others:
        for holder in holders:
            tx = others.enter_context(uncommitted(store))
            claimed = exchange._call(tx, holder.id, 1, (), holder.want(15), ()).claimed
            assert len(claimed) == 15
            taken += [job.lease.job for job in claimed]
        assert Holder(store, ["b"]).claim_ids(5) != []  # from one line, past all of them
    assert len(set(taken)) == len(taken)
    assert set(taken) < jobs
    assert taken[:15] == sorted(jobs)[:15]


def test_a_renewal_waits_for_no_exchange_and_what_it_cannot_note_is_said_again(
    store: PostgresStore,
) -> None:
    add_many(store, 2)
    holder = Holder(store)
    done, runs = (job.lease for job in holder.claim())
    with uncommitted(store) as tx:
        exchange._call(tx, holder.id, holder.seq + 1, [Complete(done)], None, ())
        answer = holder.renew(begun=[done, runs])
        assert answer.moment > holder.registered.moment
        assert answer.unrecorded == (done,)
    assert holder.renew(begun=[done]).unrecorded == ()
    assert [get(store, lease.job).begun for lease in (done, runs)] == [False, True]


def test_who_waits_for_a_place_in_a_queue_holds_up_nobody(
    store: PostgresStore, raw: psycopg.Connection
) -> None:
    add_many(store, 2)
    holder = Holder(store)
    first, second = (job.lease for job in holder.claim())
    lost: list[LeaseLost] = []

    def enqueue() -> None:
        try:
            store.enqueue([new_job(queue="small")], caps={"small": 1}, fence=first)
        except LeaseLost as error:
            lost.append(error)

    with uncommitted(store) as tx:
        enqueue_capped(tx, [new_job(queue="small")], {"small": 1}, all_or_none=False)
        waits = begin(enqueue, raw)
        assert holder.renew(begun=[first]).unrecorded == ()
        assert holder.settle(Complete(first)) == ()
        assert waits.is_alive()
    waits.join()
    assert [error.job for error in lost] == [first.job]
    # Nor who has come to write under a lease: its job can be noted as begun.
    with uncommitted(store) as tx:
        assert isinstance(enqueue_under(tx, second, [new_job()], None, False), list)
        assert holder.renew(begun=[second]).unrecorded == ()


def test_a_renewal_that_had_to_wait_past_the_moment_comes_too_late(
    store: PostgresStore, raw: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_URGENT_LOCK_MS", 30_000)
    monkeypatch.setattr(database, "_URGENT_SHARE", 5.0)
    holder = Holder(store, lease=timedelta(seconds=2))
    told: list[Standing] = []
    with uncommitted(store) as tx:
        tx.connection.execute("SELECT 1 FROM limpet.session FOR UPDATE")
        renewal = begin(lambda: told.append(holder.renew().standing), raw)
        while store.outlook().now <= holder.registered.moment:
            time.sleep(0.05)
    renewal.join()
    assert told == [Standing.PAST]


def test_a_line_for_which_there_was_no_room_is_remembered_too(
    store: PostgresStore, raw: psycopg.Connection
) -> None:
    one, two = add(store, queue="one"), add(store, queue="two")
    holder = Holder(store)
    holder.claim(0)
    # As after a claim that had to step over very many rows.
    raw.execute(
        "UPDATE limpet.hold SET lines = %s, "
        "lines_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 9000000",
        ['[["one", "task", false, 0], ["two", "task", false, 0]]'],
    )
    assert holder.claim_ids(slots={"one": 0, ANY_QUEUE: 5}) == [two]
    assert holder.claim_ids() == [one]


def test_child_that_is_just_being_claimed_hears_that_its_parent_was_cancelled(
    store: PostgresStore,
) -> None:
    Holder(store).claim(0)  # so that the store knows its server
    parent = new_job(rules=Rules(children=2))
    store.enqueue([parent, *(new_job(parent=parent.id) for _ in range(2))])
    holder = Holder(store)
    with uncommitted(store) as tx:
        (child,) = exchange._call(tx, holder.id, 1, (), holder.want(1), ()).claimed
        person = threading.Thread(target=lambda: store.cancel(parent.id))
        person.start()
        while get(store, parent.id).state is not State.CANCELLED:
            time.sleep(0.005)
    person.join()
    assert holder.renew().cancels == (child.lease,)


def test_late_holder_does_not_wait_for_who_has_the_job_now(store: PostgresStore) -> None:
    """Two that each settle what is the other's by now would wait for each other."""
    add(store)
    late, holder = Holder(store), Holder(store)
    lost = late.take()
    late.release(lost, cause=Drained())
    lease = holder.take()
    with uncommitted(store) as tx:
        exchange._call(tx, holder.id, holder.seq + 1, [Complete(lease)], None, ())
        assert late.settle(Complete(lost)) == (Rejected(lost, "lost"),)


def test_limit_holds_for_jobs_that_arrive_in_the_middle_of_a_claim(
    store: PostgresStore, raw: psycopg.Connection
) -> None:
    """The claim has seen which queues bound it, and waits for one of them; then jobs of another
    queue with a limit come, which it had not seen.
    """
    store.limit_queue("first", QueueRules(concurrency=5))
    store.limit_queue("second", QueueRules(concurrency=1))
    add(store, queue="first")
    holder = Holder(store)
    claimed: list[str] = []

    def claim() -> None:
        claimed.extend(job.queue for job in holder.claim(10))

    with uncommitted(store) as tx:
        tx.connection.execute("SELECT FROM limpet.queue WHERE name = 'first' FOR UPDATE")
        waiting = begin(claim, raw)
        add_many(store, 4, queue="second")
    waiting.join(_PATIENCE_SECONDS)
    claim()
    assert sorted(claimed) == ["first", "second"]
