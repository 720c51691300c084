"""Any field of any row may hold anything: what reads, claims and sweeps goes on all the same.

Short here; `make prove` tries for longer (LIMPET_TEST_FUZZ: how many stores full of nonsense).
"""

import json
import os
from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path

from contract.driver import BACKENDS, BOOM, LEASE, MINUTE, Holder, add, get, promote_all, state
from contract.hostile import HOSTILE, Writer, writer_for
from contract.keys import keyed
from contract.opened import opened
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from limpet.domain.breaker import BreakerRules, Observed
from limpet.domain.job import JobFilter, NewJob
from limpet.domain.queue import DEFAULT_RETENTION, QueueRules
from limpet.domain.rate import rate_of
from limpet.domain.rules import Rules
from limpet.domain.schedule import Schedule, Timing
from limpet.domain.session import SessionLock
from limpet.domain.state import State
from limpet.domain.transition import Complete, Quarantine, RetryAt, Settlement
from limpet.maintenance.declared import Declarer
from limpet.maintenance.scheduler import Scheduler
from limpet.maintenance.sweeper import Sweeper
from limpet.ops.hosts import list_hosts
from limpet.ops.inspect import list_queues, list_sessions, show_job
from limpet.ops.schedules import list_schedules
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

EXAMPLES = int(os.environ.get("LIMPET_TEST_FUZZ", "4"))
FIELDS = (
    *(("job", f"job.{name}") for name in ("args", "options", "secrets")),
    *(("tried", name) for name in ("job.error", "event.cause", "event.event", "job.options")),
    *(("done", name) for name in ("job.result", "job.result_secrets")),
    ("keyed", "job.rules"),
    *(("session", f"session.{name}") for name in ("lock", "cause", "schedules", "pools", "host")),
    *(("queue", f"queue.{name}") for name in ("declared", "adjusted")),
    ("key", "key.rate"),
    ("breaker", "breaker.body"),
    *(("schedule", f"schedule.{name}") for name in ("definition", "timing")),
    ("host", "host.body"),
)
# Names that mean something, with values that do not.
_WORDS = st.sampled_from([
    "kind", "text", "last_seen", "timeout", "stall_after", "retry", "relaunch", "orphan_hook",
    "key_limit", "key_rate", "limit", "rate", "tasks", "failure_rate", "least", "window", "tries",
    "probe_after", "state", "task", "args", "queue", "every", "cron", "tz", "path", "inode",
    "nonce", "reading", "capacity",
])  # fmt: skip
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8)
)
_JSON = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_WORDS, inner, max_size=5)
)
VALUES = (
    st.sampled_from(HOSTILE)
    | _JSON.map(json.dumps)
    | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
)


class Furnished:
    """A store with a row of each kind, two of some: the second of them nobody writes into."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.holder = Holder(store, ["task", "other"], lease=timedelta(hours=1))
        self.rows: dict[str, list[str]] = {"tried": [add(store)], "done": [add(store)]}
        tried, done = self.holder.claim(2)
        self.holder.settle(RetryAt(tried.lease, 1, BOOM), Complete(done.lease, "1", ("x",)))
        self.rows["job"] = [add(store, args='{"n": 1}', secrets=("n",))]
        rules = Rules(key_limit=2, key_rate=rate_of("100/s bursty"))
        self.rows["keyed"] = keyed(store, 3, key="k", rules=rules)
        self.rows["key"], self.rows["queue"] = ["k"], ["default"]
        store.limit_key("k", 2, rate_of("100/s bursty"))
        store.declare_queues({"default": QueueRules(concurrency=100)})
        store.limit_queue("default", QueueRules(weight=2))
        self.rows["breaker"] = ["b"]
        store.declare_breakers(
            [BreakerRules("b", frozenset({"other"}), 0.5, least=1, window=MINUTE, probe_after=1)]
        )
        self.holder.exchange(observed=[Observed("b", 0, 5)])
        lock = SessionLock("/nowhere", 1, "nonce")
        lost = Holder(store, lock=lock, schedules=["s"])
        self.rows["session"] = [lost.id]
        self.lost_job = add(store, task="task", queue="lost")
        lost.claim(1, {"lost": 1})
        for id_ in ("s", "good"):
            timing = Timing(every=MINUTE)
            job = NewJob("", "task", "{}", queue="ticks")
            store.put_schedule(
                Schedule(id=id_, job=job, timing=timing, next_at=clock.wall() + MINUTE)
            )
        self.rows["schedule"] = ["s"]
        for server in ("h", "good"):
            store.publish_host(server, "{}", timedelta(minutes=30))
        self.rows["host"] = ["h"]
        self.good = add(store, queue="good")

    def spoil(self, writer: Writer, nonsense: Sequence[tuple[tuple[str, str], str]]) -> None:
        for (kind, field), value in nonsense:
            for row in self.rows[kind]:
                writer.write(field, row, value)

    def use(self) -> None:
        """All that workers and people do, which must go well for what nobody wrote into."""
        store, clock = self.store, self.clock
        clock.advance(timedelta(minutes=2))
        sweeper = Sweeper(store, self.holder.id, lambda session: False, clock)
        sweeper.prove()
        Declarer(store, "app", {}, removes=True, clock=clock).run()
        Scheduler(store, clock).run()
        promote_all(store)
        self.settle_all()
        clock.advance(LEASE)
        sweeper.expire()
        clock.advance(timedelta(hours=1))
        self.holder.renew(stepped=True)
        sweeper.expire()
        self.settle_all()
        good = store.schedule("good")
        assert good is not None
        assert good.fired == 1
        assert state(store, self.good) is State.SUCCEEDED
        assert state(store, self.lost_job) in (State.READY, State.SUCCEEDED)
        self.look()
        store.invariants()  # says what it finds
        store.repair_store()
        store.prune(DEFAULT_RETENTION)
        assert store.manifest().settings

    def settle_all(self) -> None:
        for _ in range(3):
            claimed = self.holder.claim(100)
            said: list[Settlement] = [
                Quarantine(each.lease, BOOM) if each.unreadable else Complete(each.lease)
                for each in claimed
            ]
            self.holder.settle(*said)
            promote_all(self.store)

    def look(self) -> None:
        store = self.store
        for job in store.jobs(JobFilter(), limit=100).jobs:
            show_job(store, job.id)
        assert get(store, self.good).id == self.good
        list_sessions(store, with_dead=True)
        list_queues(store)
        list_schedules(store)
        list_hosts(store)
        store.latest_events(100)


def test_anything_in_any_field_stops_nothing_else(backend: str, tmp_path: Path) -> None:
    numbers = count()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(st.tuples(st.sampled_from(FIELDS), VALUES), min_size=1, max_size=40))
    def use(nonsense: list[tuple[tuple[str, str], str]]) -> None:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        clock = FakeClock()
        with opened(BACKENDS[backend](folder), clock) as store:
            furnished = Furnished(store, clock)
            with writer_for(store) as writer:
                furnished.spoil(writer, nonsense)
            furnished.use()

    use()
