"""The hash of a session in Redis has no columns: any field may hold anything, or be gone."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from contract.driver import EVERY_BACKEND, LEASE, Holder, add, states

from limpet.domain.state import State
from limpet.maintenance.sweeper import Sweeper
from limpet.storage.redis.store import RedisStore
from limpet.testing.clock import FakeClock

FIELDS = (
    "state", "kind", "lease", "moment", "seq", "count", "total", "tasks", "pools", "lock", "cause",
    "schedules", "host", "boot", "pid", "renewed_at", "registered_at", "name",
)  # fmt: skip


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return EVERY_BACKEND["redis"](tmp_path)


@pytest.fixture
def store(url: str, clock: FakeClock) -> Iterator[RedisStore]:
    with closing(RedisStore(url, clock)) as store:
        store.migrate()
        yield store


def test_jobs_of_a_session_with_nonsense_in_any_field_are_recovered(
    store: RedisStore, url: str, clock: FakeClock
) -> None:
    jobs = []
    with closing(redis.Redis.from_url(url)) as raw:
        for field in FIELDS:
            for value in (None, "nonsense", "", "-1", "1e999"):
                jobs.append(add(store))
                holder = Holder(store)
                holder.take()
                key = f"{{limpet}}:session/{holder.id}"
                if value is None:
                    raw.hdel(key, field)
                else:
                    raw.hset(key, field, value)
    assert len(store.sessions(with_dead=True)) == len(jobs)
    sweeper = Sweeper(store, None, lambda session: False, clock)
    sweeper.prove()
    for _ in range(3):
        sweeper.expire()
        clock.advance(LEASE + timedelta(seconds=1))
    sweeper.expire()
    assert set(states(store, jobs)) == {State.READY}
    clock.advance(timedelta(days=30))
    assert store.prune({}).sessions == len(jobs)
