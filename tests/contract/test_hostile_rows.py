"""Nonsense that somebody wrote into single fields: named and passed over, it stops nothing else."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from contract.driver import (
    BACKENDS,
    BOOM,
    KILLED,
    LEASE,
    MINUTE,
    SECOND,
    Holder,
    add,
    get,
    new_id,
    new_job,
    promote_all,
    states,
)
from contract.families import child, parent
from contract.hostile import HOSTILE, NUMBERS, RedisWriter, Writer, writer_for
from contract.keys import keyed
from contract.opened import opened

from limpet.domain.breaker import BreakerRules, Observed
from limpet.domain.cause import Raised
from limpet.domain.job import JobFilter, NewJob, masked
from limpet.domain.queue import QueueRules
from limpet.domain.rate import rate_of
from limpet.domain.rules import Rules
from limpet.domain.schedule import Schedule, Timing
from limpet.domain.session import SessionLock
from limpet.domain.state import State
from limpet.domain.transition import Complete, Quarantine, RetryAt
from limpet.maintenance.declared import Declarer
from limpet.maintenance.scheduler import Scheduler
from limpet.maintenance.sweeper import Sweeper
from limpet.storage.contract.store import Store
from limpet.storage.records import unreadable
from limpet.testing.clock import FakeClock

FAILED, QUARANTINED, READY, RUNNING = State.FAILED, State.QUARANTINED, State.READY, State.RUNNING


@pytest.fixture(autouse=True)
def _nothing_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of another store have the same names."""
    monkeypatch.setattr(unreadable, "_named", set())


@pytest.fixture
def url(backend: str, tmp_path: Path) -> str:
    return BACKENDS[backend](tmp_path)


@pytest.fixture
def store(url: str, clock: FakeClock) -> Iterator[Store]:
    """A store that need not be sound at the end: nonsense is written into it."""
    with opened(url, clock) as store:
        yield store


@pytest.fixture
def writer(store: Store) -> Iterator[Writer]:
    with writer_for(store) as writer:
        yield writer


# -- jobs


def test_jobs_that_cannot_be_read_are_claimed_with_the_others_and_put_aside(
    store: Store, writer: Writer
) -> None:
    fields = ("job.args", "job.options", "job.secrets")
    bad = {add(store): each for each in product(fields, HOSTILE)}
    for job, (field, value) in bad.items():
        writer.write(field, job, value)
    good = add(store, args='{"n": 1}')
    holder = Holder(store)
    claimed = {each.lease.job: each for each in holder.claim(len(bad) + 1)}
    assert claimed.keys() == {*bad, good}
    assert not claimed[good].unreadable
    for job, (field, _) in bad.items():
        if field == "job.secrets":
            assert "secrets" in claimed[job].unreadable
    holder.settle(
        *(Quarantine(claimed[job].lease, Raised("PayloadInvalid", "no")) for job in bad),
        Complete(claimed[good].lease),
    )
    assert set(states(store, list(bad))) == {QUARANTINED}
    for job in bad:
        store.repair(job, '{"n": 1}', 1, ())
    again = holder.claim(len(bad))
    assert {each.lease.job for each in again} == bad.keys()
    assert {(each.args, each.secrets) for each in again} == {('{"n": 1}', ())}
    # What is an object is kept, also where nobody knows what it means.
    assert {each.options for each in again} == {"{}", '{"kind": 7}'}


def test_answer_of_an_exchange_is_repeated_with_jobs_that_cannot_be_read(
    store: Store, writer: Writer
) -> None:
    jobs = [add(store) for _ in range(3)]
    writer.write("job.secrets", jobs[1], "{")
    holder = Holder(store)
    first = holder.claim()
    again = store.exchange(holder.id, holder.seq, (), holder.want())
    assert again.claimed == first
    assert [each.lease.job for each in first] == jobs
    assert [bool(each.unreadable) for each in first] == [False, True, False]


def test_secrets_that_cannot_be_read_mask_everything(store: Store, writer: Writer) -> None:
    job = add(store, args='{"a": 1}', secrets=("a",))
    writer.write("job.secrets", job, "{")
    assert masked({"a": 1}, get(store, job).secrets) == "***"


def test_jobs_that_cannot_be_read_are_listed(
    store: Store, writer: Writer, holder: Holder, caplog: pytest.LogCaptureFixture
) -> None:
    ended = ("job.error", "job.result", "job.result_secrets")
    waits = ("job.args", "job.options", "job.secrets", "job.rules")
    bad = {add(store, key=f"k{n}"): each for n, each in enumerate(product(ended, HOSTILE))}
    for claimed in holder.claim(len(bad)):
        field, _ = bad[claimed.lease.job]
        error = field == "job.error"
        lease = claimed.lease
        holder.settle(RetryAt(lease, 1, BOOM) if error else Complete(lease, "1", ("x",)))
    bad |= {
        add(store, key=f"w{n}", rules=Rules(key_limit=2)): each
        for n, each in enumerate(product(waits, HOSTILE))
    }
    for job, (field, value) in bad.items():
        writer.write(field, job, value)
    listed = store.jobs(JobFilter(), limit=1_000).jobs
    assert {job.id for job in listed} == bad.keys()
    assert all(get(store, job).id == job for job in bad)
    named = {record.getMessage() for record in caplog.records if record.name == "limpet"}
    assert any("its secrets cannot be read" in message for message in named)
    assert any("its error cannot be read" in message for message in named)


def test_one_bad_event_does_not_hide_the_timeline_of_its_job(
    store: Store, writer: Writer, holder: Holder
) -> None:
    bad = {add(store): each for each in product(("event.cause", "event.event"), HOSTILE)}
    for claimed in holder.claim(len(bad)):
        holder.settle(RetryAt(claimed.lease, 1, BOOM))
    for job, (field, value) in bad.items():
        writer.write(field, job, value)
    promote_all(store)
    for claimed in holder.claim(len(bad)):
        holder.settle(RetryAt(claimed.lease, 1, BOOM))
    for job in bad:
        assert store.events(job)[-1].cause == BOOM
        assert str(store.events(job)[0].cause)
    assert len(store.latest_events(1_000)) >= len(bad)


def test_what_a_job_says_of_its_key_stops_no_other_key(
    store: Store, writer: Writer, holder: Holder
) -> None:
    rules = Rules(key_limit=2, key_rate=rate_of("5/s"))
    for n, value in enumerate((*HOSTILE, '{"key_limit": "x"}', '{"key_rate": [0, 0, 0]}')):
        for job in keyed(store, 3, key=f"bad{n}", rules=rules):
            writer.write("job.rules", job, value)
    good = keyed(store, 3, key="good")
    for _ in range(3):
        for claimed in holder.claim(100):
            holder.settle(Complete(claimed.lease))
        promote_all(store)
    assert set(states(store, good)) == {State.SUCCEEDED}


# -- sessions


def test_sessions_that_cannot_be_read_are_listed_swept_and_recovered(
    store: Store, writer: Writer, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    texts = ["lock", "cause", "schedules", "pools", "host"]
    numbers = ["pid", "lease", "registered_at", "renewed_at"]
    nonsense: list[tuple[str, str | int]] = list(product(texts, HOSTILE))
    nonsense += [
        (field, number)
        for field, number in product(numbers, NUMBERS)
        if field != "lease" or not 0 < number < 2**32  # which is one
    ]
    if isinstance(writer, RedisWriter):  # which has no columns, so that anything may be anywhere
        nonsense += product(("kind", *numbers), HOSTILE)
    bad = {}
    for field, value in nonsense:
        job = add(store)
        lock = SessionLock("/nowhere", 1, "nonce")
        holder = Holder(store, lock=lock, schedules=["s"])
        holder.take()
        writer.write(f"session.{field}", holder.id, value)
        bad[holder.id] = job
    good = Holder(store)
    listed = {each.id: each for each in store.sessions()}
    assert listed.keys() == {*bad, good.id}
    sweeper = Sweeper(store, None, lambda session: False, clock)
    assert sweeper.prove() == 0
    sweeper.expire()
    for _ in range(3):
        clock.advance(LEASE + timedelta(seconds=1))
        sweeper.expire()
    assert set(states(store, list(bad.values()))) == {READY}
    assert {each.id for each in store.sessions(with_dead=True)} == listed.keys()
    assert "its lock cannot be read" in caplog.text
    clock.advance(timedelta(days=30))
    assert store.prune({}).sessions == len(listed)


def test_schedule_is_not_removed_while_nobody_knows_what_a_session_declares(
    store: Store, writer: Writer, clock: FakeClock
) -> None:
    store.put_schedule(replace(a_schedule(clock, "s"), declared="app"))
    holder = Holder(store, schedules=["s"])
    writer.write("session.schedules", holder.id, "{")
    declarer = Declarer(store, "app", {}, removes=True, clock=clock)
    declarer.run()
    assert store.schedule("s") is not None
    holder.die()
    declarer.run()
    assert store.schedule("s") is None


def test_dead_session_with_a_bad_cause_is_recovered(store: Store, writer: Writer) -> None:
    for value in HOSTILE:
        job = add(store)
        holder = Holder(store)
        holder.take()
        holder.die(KILLED)
        writer.write("session.cause", holder.id, value)
        assert store.recover(holder.id).ready == 1
        assert store.events(job)
        store.cancel(job, "")


# -- what is beside jobs


def a_schedule(clock: FakeClock, id_: str) -> Schedule:
    job = NewJob("", "task", "{}")
    return Schedule(id=id_, job=job, timing=Timing(every=MINUTE), next_at=clock.wall() + MINUTE)


def test_one_bad_schedule_does_not_stop_the_others(
    store: Store, writer: Writer, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    values = (
        *HOSTILE,
        '{"task": "task", "args": "{}", "queue": "default"}',
        '{"task": "task", "args": "{}", "queue": "default", "every": 0}',
        '{"task": "task", "args": "{}", "queue": "default", "cron": "x", "tz": "Nowhere/Land"}',
        '{"task": "task", "args": "{}", "queue": "a\\u0000/b", "every": 60000000}',
        '{"task": "task", "args": "{}", "queue": "default", "every": 60000000, "rules": {"x": 1},'
        ' "delay": 1e300}',
    )
    for n, value in enumerate(values):
        store.put_schedule(a_schedule(clock, f"bad{n}"))
        writer.write("schedule.definition", f"bad{n}", value)
    store.put_schedule(a_schedule(clock, "good"))
    clock.advance(timedelta(minutes=2))
    Scheduler(store, clock).run()
    good = store.schedule("good")
    assert good is not None
    assert good.fired == 1
    assert "good" in {each.id for each in store.schedules()}
    assert "schedule bad0" in caplog.text
    for n in range(len(values)):
        store.put_schedule(a_schedule(clock, f"bad{n}"))
        found = store.schedule(f"bad{n}")
        assert found is not None
        assert found.timing == Timing(every=MINUTE)
        assert store.remove_schedule(f"bad{n}")


@pytest.mark.parametrize("field", ["queue.declared", "queue.adjusted"])
def test_one_bad_queue_rule_stops_no_other_queue(
    store: Store, writer: Writer, holder: Holder, field: str
) -> None:
    values = (*HOSTILE, '[0, [0, 0, 0], "x"]', '[{}, "x", -1]', "[1e300, [1, 1, 1], 1]")
    for n, value in enumerate(values):
        store.declare_queues({f"q{n}": QueueRules(concurrency=5, weight=2)})
        store.limit_queue(f"q{n}", QueueRules(concurrency=5, rate=rate_of("5/s")))
        add(store, queue=f"q{n}")
        writer.write(field, f"q{n}", value)
    good = add(store, queue="good")
    assert good in holder.claim_ids(100)
    assert {view.name for view in store.queues()} >= {f"q{n}" for n in range(len(values))}
    for n in range(len(values)):
        store.limit_queue(f"q{n}", QueueRules(concurrency=1))
        store.declare_queues({f"q{n}": QueueRules(weight=3)})
    rules = {view.name: view.rules for view in store.queues()}
    assert rules["q0"] == QueueRules(concurrency=1, weight=3)
    assert store.manifest().settings


def test_one_bad_limit_of_a_key_stops_no_other_key(
    store: Store, writer: Writer, holder: Holder
) -> None:
    values = (*HOSTILE, "[0, 0, 0]", '{"limit": -1, "rate": [1, 0, "x"]}')
    for n, value in enumerate(values):
        store.limit_key(f"k{n}", 2, rate_of("5/s"))
        writer.write("key.rate", f"k{n}", value)
        keyed(store, 3, key=f"k{n}")
        store.key_limit(f"k{n}")
    good = keyed(store, 1, key="good")
    assert good[0] in holder.claim_ids(100)
    for n in range(len(values)):
        store.limit_key(f"k{n}", 7, None)
        assert store.key_limit(f"k{n}").limit == 7
    assert store.manifest().settings


def test_one_bad_breaker_stops_no_claim(store: Store, writer: Writer) -> None:
    holder = Holder(store, ["task", "other"])
    values = (*HOSTILE, '{"tasks": [7], "failure_rate": "x"}')
    rules = [
        BreakerRules(
            f"b{n}", frozenset({"task"}), failure_rate=0.5, least=1, window=MINUTE,
            probe_after=SECOND,
        )
        for n in range(len(values) + 1)
    ]  # fmt: skip
    store.declare_breakers(rules)
    holder.exchange(observed=[Observed(each.name, 0, 5) for each in rules[:-1]])
    for n, value in enumerate(values):
        writer.write("breaker.body", f"b{n}", value)
    add(store)
    good = add(store, task="other")
    assert good in holder.claim_ids(10)
    assert rules[-1] in [each.rules for each in store.breakers()]
    holder.exchange(observed=[Observed(each.name, 1, 0) for each in rules])
    store.declare_breakers(rules)
    assert [each.rules for each in store.breakers()] == sorted(rules, key=lambda each: each.name)


def test_one_bad_part_of_a_flow_keeps_no_other_flow_back(store: Store, writer: Writer) -> None:
    for value in HOSTILE:
        flow = new_id()
        store.stage(flow, 0, [new_job()])
        writer.write("flow.jobs", flow, value)
        assert store.commit(flow, 1)
    top = parent(1)
    below = child(top)
    flow = new_id()
    store.stage(flow, 0, [top, below])
    assert store.commit(flow, 1)
    promote_all(store)
    assert states(store, [top.id, below.id]) == [State.BLOCKED, READY]


def test_one_bad_reading_of_a_host_hides_no_other(store: Store, writer: Writer) -> None:
    for n, value in enumerate(HOSTILE):
        store.publish_host(f"bad{n}", "{}", timedelta(minutes=5))
        writer.write("host.body", f"bad{n}", value)
    store.publish_host("good", "{}", timedelta(minutes=5))
    assert {each.server for each in store.hosts()} >= {"good", "bad1"}


def test_what_cannot_be_read_is_named_once(
    store: Store, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    job = add(store)
    writer.write("job.secrets", job, "{")
    for _ in range(3):
        get(store, job)
    named = [each for each in caplog.records if job in each.getMessage()]
    assert len(named) == 1
    assert named[0].levelno == logging.WARNING
