"""The gate on a Redis whose memory is full, or that is another."""

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from acceptance.redis_place import PROGRAMS, raw, running, until
from contract.driver import KILLED, add_many
from contract.gates import CORE, ROOM, Gated
from contract.test_permits import caller
from servers import RedisServer

from limpet.domain.host import Sample, Span
from limpet.domain.transition import Complete
from limpet.storage.gating import SAMPLES_KEPT
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock

LIFETIME = timedelta(minutes=1)
SHORT_LEASE = timedelta(seconds=3)


@pytest.fixture(params=PROGRAMS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    with running(tmp_path / "server", binary=PROGRAMS[request.param]) as some:
        yield some


def test_full_memory_lets_weighted_jobs_begin_and_end(server: RedisServer) -> None:
    with closing(open_store(server.url)) as store, raw(server) as client:
        jobs = add_many(store, 4, task="render")
        holder = Gated(store, room=ROOM._replace(cpu=2_000))
        first, second = holder.gated()
        outside = caller(store)
        client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)
        (third,) = holder.gated(Complete(first.lease))
        assert holder.release(second.lease, cause=KILLED) == ()
        assert store.take_permit(outside, CORE, holder.room)
        assert {each.holder for each in store.permits()} == {jobs[2], outside}
        assert store.end(outside, KILLED)
        holder.vanish()
        assert store.permits() == ()
        assert third.lease.job == jobs[2]
        assert store.invariants() == ()


def test_full_memory_keeps_what_a_host_says_and_leaves_samples_out(server: RedisServer) -> None:
    with closing(open_store(server.url)) as store, raw(server) as client:
        now = int(client.time()[0]) * 1_000_000
        before, meanwhile = (Sample(Span.SECOND, now + at, "[1]") for at in (0, 1_000_000))
        store.publish_host("web-1", '{"cpu": 1}', LIFETIME, [before])
        client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)
        store.publish_host("web-1", '{"cpu": 2}', LIFETIME, [meanwhile])
        assert [host.body for host in store.hosts()] == ['{"cpu": 2}']
        assert store.samples("web-1", Span.SECOND) == (before,)


def test_what_a_host_that_is_gone_left_behind_is_removed(server: RedisServer) -> None:
    clock = FakeClock()
    with closing(open_store(server.url, clock)) as store, raw(server) as client:
        samples = [Sample(span, clock.wall(), "[1]") for span in Span]
        store.publish_host("web-1", "{}", LIFETIME, samples)
        assert any(b"web-1" in key for key in client.scan_iter())
        clock.advance(max(SAMPLES_KEPT.values()))
        store.publish_host("web-2", "{}", LIFETIME)
        assert not any(b"web-1" in key for key in client.scan_iter())
        assert client.zcard("{limpet}:sampled") == 0
        assert client.hkeys("{limpet}:hosts") == [b"web-2"]


def test_server_that_took_over_admits_no_caller_until_those_it_may_have_forgotten_have_stopped(
    server: RedisServer,
) -> None:
    with closing(open_store(server.url)) as store, raw(server) as client:
        me, other = (caller(store, lease=SHORT_LEASE) for _ in range(2))
        assert store.take_permit(me, CORE, ROOM)
        took_over = time.monotonic()
        client.hset("{limpet}:store", "run", "another server process")
        assert store.take_permit(me, CORE, ROOM)
        assert not store.take_permit(other, CORE, ROOM)

        def is_given() -> bool:
            for session in (me, other):
                store.renew(session, stepped=True)
            return store.take_permit(other, CORE, ROOM)

        until(is_given, 2 * SHORT_LEASE.total_seconds())
        assert time.monotonic() - took_over >= 0.9 * SHORT_LEASE.total_seconds()
