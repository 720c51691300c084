"""The gate on PostgreSQL while another's transaction is open, and where nothing has a weight."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from acceptance.test_postgres_turns import begin, uncommitted
from contract.driver import BOOM, EVERY_BACKEND, KILLED, Holder, add, add_many
from contract.gates import CORE, ROOM, Gated
from contract.test_permits import caller

from limpet.domain.cause import Drained
from limpet.domain.transition import Complete, RetryAt
from limpet.storage.contract.store import Want
from limpet.storage.postgres.gate import take_permit
from limpet.storage.postgres.store import PostgresStore


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


def test_claim_waits_for_nobody_at_the_gate_and_is_told_to_ask_again(store: PostgresStore) -> None:
    heavy = add(store, task="render")
    light = add(store)
    holder = Gated(store)
    want = Want((holder.pool(9),), holder.gate())
    with uncommitted(store) as tx:
        tx.call("enter", ROOM.server)
        first = holder.exchange(want=want)
        assert first.next_at is not None
        assert first.next_at <= time.time_ns() // 1000 + 5_000
    second = holder.exchange(want=want)
    assert [job.lease.job for job in first.claimed] == [light]
    assert [job.lease.job for job in second.claimed] == [heavy]
    assert second.next_at is None


def test_host_whose_gate_is_taken_keeps_nobody_from_another(store: PostgresStore) -> None:
    heavy = add(store, task="render")
    with uncommitted(store) as tx:
        tx.call("enter", ROOM.server)
        assert Gated(store, room=ROOM._replace(server="web-2")).gated_ids() == [heavy]
        assert store.take_permit(caller(store), CORE, ROOM._replace(server="web-3"))


def test_caller_waits_for_who_is_at_the_gate(store: PostgresStore, raw: psycopg.Connection) -> None:
    room = ROOM._replace(cpu=1_000)
    one, two = caller(store), caller(store)
    given: list[bool] = []
    with uncommitted(store) as tx:
        assert take_permit(tx, one, CORE, room)
        thread = begin(lambda: given.append(store.take_permit(two, CORE, room)), raw)
        assert given == []
    thread.join(30)
    assert given == [False]


def test_caller_that_ends_while_it_is_admitted_has_no_permit(
    store: PostgresStore, raw: psycopg.Connection
) -> None:
    me = caller(store)
    with uncommitted(store) as tx:
        assert take_permit(tx, me, CORE, ROOM)
        thread = begin(lambda: store.end(me, KILLED), raw)
    thread.join(30)
    assert store.permits() == ()


def test_job_that_was_claimed_does_not_go_on_reserving(store: PostgresStore) -> None:
    job = add(store, task="render")
    busy = Gated(store, room=ROOM._replace(cpu=1_000))
    assert store.take_permit(caller(store), CORE, busy.room)
    hasty = Want((busy.pool(1),), busy.gate()._replace(reserve_after_us=0))
    assert busy.exchange(want=hasty).claimed == ()
    assert [each.holder for each in store.reservations()] == [job]
    plain = Holder(store, ["render"])
    (held,) = plain.claim()
    plain.release(held.lease, cause=Drained())
    assert store.reservations() == ()


def test_work_without_a_weight_does_not_look_for_permits(
    store: PostgresStore, raw: psycopg.Connection
) -> None:
    add_many(store, 6)
    holder = Gated(store)
    raw.execute("ALTER TABLE limpet.permit RENAME TO hidden")
    raw.execute("ALTER TABLE limpet.reservation RENAME TO hidden_too")
    one, two, three, four = (job.lease for job in holder.gated(total=4))
    holder.exchange(Complete(one), RetryAt(two, 1, BOOM))
    holder.release(three, cause=Drained())
    holder.gated(Complete(four), total=1)
    raw.execute("ALTER TABLE limpet.hidden RENAME TO permit")
    raw.execute("ALTER TABLE limpet.hidden_too RENAME TO reservation")
