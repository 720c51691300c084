"""What a role may do that uses a PostgreSQL store and does not own it: what it needs, no more."""

import os
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from acceptance.whole_life import live
from contract.driver import KILLED, Holder, add, new_job
from contract.gates import CORE, ROOM, Gated
from contract.test_permits import caller
from servers import shared_url

from limpet.domain.breaker import BreakerRules, Observed
from limpet.domain.cause import Raised
from limpet.domain.errors import StoreRefused
from limpet.domain.host import Sample, Span
from limpet.domain.queue import QueueRules
from limpet.domain.rate import Rate
from limpet.domain.rules import Rules
from limpet.domain.state import FINAL, State
from limpet.domain.transition import Complete, Fail, Quarantine
from limpet.storage.contract.store import Want
from limpet.storage.postgres import schema
from limpet.storage.postgres.store import PostgresStore

SCRIPTS = Path(schema.__file__).parent
SCHEMA = f"rights_{os.getpid()}"
ROLE = f"worker_{os.getpid()}"
# A row that is locked, or takes the place of another, is one that may be changed.
USES = {
    "INSERT": (r"INSERT INTO limpet\.\w+",),
    "DELETE": (r"DELETE FROM limpet\.\w+",),
    "UPDATE": (
        r"UPDATE limpet\.\w+",
        r"INSERT INTO limpet\.\w+.*DO UPDATE",
        r"FROM limpet.*FOR (UPDATE|KEY)",
    ),
}


@pytest.fixture
def raw() -> Iterator[psycopg.Connection]:
    """The owner, and a role that may only connect."""
    with psycopg.connect(shared_url("postgres15"), autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(f"DROP ROLE IF EXISTS {ROLE}; CREATE ROLE {ROLE} LOGIN".encode())
        yield connection
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        connection.execute(f"DROP OWNED BY {ROLE}; DROP ROLE {ROLE}".encode())


@pytest.fixture
def url(raw: psycopg.Connection) -> str:
    """The store, as the owner opens it."""
    return f"{shared_url('postgres15')}?schema={SCHEMA}"


def as_role(url: str) -> str:
    return url.replace("postgres@", f"{ROLE}@")


def grant(raw: psycopg.Connection) -> None:
    text = (SCRIPTS / "grants.sql").read_text()
    raw.execute(text.replace("limpet_role", ROLE).replace("limpet", SCHEMA).encode())


def test_role_without_rights_is_told_what_it_lacks(url: str) -> None:
    with (
        closing(PostgresStore(as_role(url))) as other,
        pytest.raises(StoreRefused, match="migrate"),
    ):
        add(other)
    with closing(PostgresStore(url)) as owner:
        owner.migrate()
    with closing(PostgresStore(as_role(url))) as other, pytest.raises(StoreRefused, match="grant"):
        add(other)


def test_role_with_the_documented_grants_lives_a_whole_life(
    url: str, raw: psycopg.Connection
) -> None:
    with closing(PostgresStore(url)) as owner:
        owner.migrate()
    grant(raw)
    with closing(PostgresStore(as_role(url))) as own:
        live(own)
        assert own.migrate() == ()
        refusal = pytest.raises(psycopg.errors.InsufficientPrivilege)
        with closing(own._db.connect()) as plain, refusal:
            plain.execute(f"DROP TABLE {SCHEMA}.job".encode())


def test_role_with_the_documented_grants_shapes_the_work(url: str, raw: psycopg.Connection) -> None:
    with closing(PostgresStore(url)) as owner:
        owner.migrate()
    grant(raw)
    with (
        closing(PostgresStore(as_role(url))) as own,
        psycopg.connect(as_role(url).partition("?")[0]) as user,
    ):
        holder = Holder(own)
        own.declare_queues({"default": QueueRules(concurrency=3, rate=Rate(9, 9, 9), weight=2)})
        own.limit_key("k", 2, Rate(9, 9, 9))
        own.declare_breakers([BreakerRules("b", frozenset({"task"}), 0.5, 1, 9, 9)])
        top = new_job(rules=Rules(children=2))
        own.enqueue([top, new_job(parent=top.id, key="k", unique="u"), new_job(key="k")])
        own.enqueue([new_job(unique="u", rules=Rules(replaces=True))])
        own.stage("flow", 0, [new_job(parent=top.id)])
        own.commit("flow", 1)
        own.enqueue_within(user, [new_job(key="other")])
        user.commit()
        own.promote()
        held = [each.lease for each in holder.claim(9)]
        error = Raised("ValueError", "no")
        again = Fail(held[1], error, relaunch_at=1)
        holder.exchange(Quarantine(held[0], error), again, observed=[Observed("b", 0, 1)])
        own.repair(held[0].job, "{}", 2, ())
        own.requeue([held[0].job], "elsewhere")
        own.reset_breaker("b")
        own.promote()
        own.cancel(top.id)
        own.hold_queue("default", 0)
        own.drain_queue("elsewhere")
        own.prune(dict.fromkeys(FINAL, timedelta()))
        assert own.children(top.id).jobs
        assert own.invariants() == ()


def test_role_with_the_documented_grants_passes_the_gate(url: str, raw: psycopg.Connection) -> None:
    with closing(PostgresStore(url)) as owner:
        owner.migrate()
    grant(raw)
    with closing(PostgresStore(as_role(url))) as own:
        add(own, task="render")
        room = ROOM._replace(cpu=1_000)
        outside = caller(own)
        assert own.take_permit(outside, CORE, room)
        holder = Gated(own, room=room)
        hasty = Want((holder.pool(1),), holder.gate()._replace(reserve_after_us=0))
        assert holder.exchange(want=hasty).claimed == ()
        assert len(own.reservations()) == 1
        own.end(outside, KILLED)
        (held,) = holder.gated()
        assert len(own.permits()) == 1
        holder.settle(Complete(held.lease))
        own.publish_host("web-1", "{}", timedelta(), [Sample(Span.SECOND, 1, "{}")])
        assert not own.hosts() + own.samples("web-1", Span.SECOND) + own.permits()
        assert not own.repair_store() + own.invariants()


def test_function_that_another_role_put_in_the_way_is_not_run(
    url: str, raw: psycopg.Connection
) -> None:
    with closing(PostgresStore(url)) as owner:
        owner.migrate()
    # Each fits better what is said than the server's own does.
    names = ("hashtextextended(text, integer)", "pg_notify(text, varchar)")
    for name in names:
        raw.execute(
            f"CREATE FUNCTION public.{name} RETURNS bigint LANGUAGE plpgsql AS "
            f"'BEGIN RAISE EXCEPTION ''run with the rights of the caller''; END'".encode()
        )
    try:
        with closing(PostgresStore(url)) as own, psycopg.connect(shared_url("postgres15")) as user:
            add(own)
            own.enqueue_within(user, [new_job()], caps={"default": 5})
            user.commit()
            holder = Holder(own)
            leases = [job.lease for job in holder.claim()]
            assert len(leases) == 2
            holder.renew(begun=leases)
            holder.settle(Complete(leases[0]))
            own.promote()
            own.prune({State.SUCCEEDED: timedelta()})
            assert own.invariants() == ()
    finally:
        for name in names:
            raw.execute(f"DROP FUNCTION public.{name}".encode())


def test_documented_grants_are_no_more_than_the_scripts_use(
    url: str, raw: psycopg.Connection
) -> None:
    with closing(PostgresStore(url)) as owner:
        owner.migrate()
    grant(raw)
    tables = raw.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [SCHEMA])
    asked = "SELECT has_table_privilege(%s, %s, %s)"
    granted = {
        (str(table), right)
        for (table,) in tables.fetchall()
        for right in (*USES, "TRUNCATE", "REFERENCES", "TRIGGER")
        if raw.execute(asked, [ROLE, f"{SCHEMA}.{table}", right]).fetchone() == (True,)
    }
    assert len(granted) > 30
    assert sorted(granted - _used()) == []


def _used() -> set[tuple[str, str]]:
    """Which table is changed by a script, and how."""
    files = (file for part in ("functions", "sql") for file in (SCRIPTS / part).glob("*.sql"))
    said = "\n".join(file.read_text() for file in files)
    statements = re.split(r";|^-- statement:", said, flags=re.MULTILINE)
    return {
        (table, right)
        for each in statements
        for right, patterns in USES.items()
        for pattern in patterns
        for found in re.finditer(pattern, re.sub("--.*", "", each), re.DOTALL)
        for table in re.findall(r"limpet\.(\w+)", found[0])
    }
