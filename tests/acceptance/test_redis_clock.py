"""Steps of a Redis server's clock: no lease ends early, and none lasts for ever.

A step forward is the same as everything that was kept of the clock before it lying further back;
so that is what the tests do, because the clock of a server cannot be set for one server alone.
"""

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from acceptance.redis_place import KINDS, raw, running
from contract.driver import Holder, add, session_of
from servers import RedisServer

from limpet.domain.session import SessionState, Standing
from limpet.storage.base import Store
from limpet.storage.registry import open_store

STEP = 30_000_000
LEASE = timedelta(seconds=1.5)


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    with running(tmp_path / "server", kind=request.param) as some:
        yield some


@pytest.fixture
def store(server: RedisServer) -> Iterator[Store]:
    with closing(open_store(server.url)) as some:
        yield some


def step(server: RedisServer, by: int) -> None:
    """Set the server's clock, as everything that was kept by it sees that."""
    with raw(server) as client:
        sessions: Any = client.zrange("{limpet}:moments", 0, -1)
        for name in (session.decode() for session in sessions):
            client.zincrby("{limpet}:moments", -by, name)
            client.hincrby(f"{{limpet}}:session/{name}", "moment", -by)
        for caller in client.hkeys("{limpet}:clocks"):
            client.hincrby("{limpet}:clocks", caller, -by)


def test_step_forward_ends_no_lease(server: RedisServer, store: Store) -> None:
    add(store)
    holder, idle = Holder(store, lease=LEASE), Holder(store, lease=LEASE)
    holder.take()
    step(server, STEP)
    assert store.expire() == ()
    assert session_of(store, idle.id).state is SessionState.LIVE
    assert holder.renew().standing is Standing.LIVE
    add(store)
    assert len(holder.claim()) == 1


def test_lease_ends_in_time_after_a_step_forward(server: RedisServer, store: Store) -> None:
    add(store)
    holder = Holder(store, lease=LEASE)
    holder.take()
    step(server, STEP)
    assert holder.renew().standing is Standing.LIVE
    time.sleep(LEASE.total_seconds() + 0.1)
    assert holder.renew().standing is Standing.PAST
    assert [each.id for each in store.expire()] == [holder.id]


def test_step_back_ends_no_lease(server: RedisServer, store: Store) -> None:
    holder = Holder(store, lease=LEASE)
    step(server, -STEP)
    assert store.expire() == ()
    assert holder.renew().standing is Standing.LIVE
    time.sleep(LEASE.total_seconds() + 0.1)
    assert holder.renew().standing is Standing.PAST


def test_drift_is_not_taken_for_a_step(server: RedisServer, store: Store) -> None:
    holder = Holder(store, lease=timedelta(seconds=30))
    for _ in range(50):
        step(server, 100_000)
        holder.renew()
    with raw(server) as client:
        assert client.hget("{limpet}:store", "behind") is None


def test_another_caller_that_renews_saves_everyone(server: RedisServer, store: Store) -> None:
    idle = Holder(store, lease=LEASE)
    with closing(open_store(server.url)) as other:
        mine = Holder(other, lease=LEASE)
        step(server, STEP)
        assert mine.renew().standing is Standing.LIVE
        assert idle.renew().standing is Standing.LIVE
