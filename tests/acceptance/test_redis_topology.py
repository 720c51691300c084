"""Redis behind a Sentinel and in a cluster: the store finds the server that has the name space."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from acceptance.redis_place import claimed_at_last, raw, running, until
from contract.driver import Holder, add, get
from servers import RedisServer
from servers.process import Process, free_port
from servers.redis import program

from limpet.domain.errors import StoreError, StoreUnavailable
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.base import Topic
from limpet.storage.registry import open_store

SLOTS = 16_384


@contextmanager
def sentinel(folder: Path, primary: RedisServer) -> Iterator[int]:
    """One Sentinel that watches a primary and gives it up after half a second."""
    folder.mkdir()
    port = free_port()
    settings = folder / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor jobs 127.0.0.1 {primary.port} 1\n"
        f"sentinel down-after-milliseconds jobs 500\n"
        f"sentinel failover-timeout jobs 3000\n"
    )
    process = Process(folder / "log")

    def answers() -> bool:
        try:
            with redis.Redis(port=port) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    process.start([program("valkey"), settings, "--sentinel"], answers)
    try:
        yield port
    finally:
        process.stop(signal.SIGKILL)


def test_store_follows_a_failover_that_a_sentinel_makes(tmp_path: Path) -> None:
    with (
        running(tmp_path / "a", kind="valkey") as primary,
        running(
            tmp_path / "b", "--replicaof", f"127.0.0.1 {primary.port}", kind="valkey"
        ) as replica,
        raw(replica) as client,
        sentinel(tmp_path / "s", primary) as port,
    ):
        url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{port}/jobs/0?timeout=1"
        with closing(open_store(url)) as store, closing(store.listen(Topic.READY)) as bell:
            job = add(store)
            assert bell.wait(timedelta(seconds=5))
            until(lambda: client.hexists("{limpet}:row", job))
            with redis.Redis(port=port) as watcher:
                until(lambda: watcher.execute_command("SENTINEL", "REPLICAS", "jobs"), 30)
            primary.kill()
            until(lambda: _enqueued(store), 30)
            assert get(store, job).state is State.READY
            assert client.role()[0] == b"master"
            bell.wait(timedelta(seconds=5))
            add(store)
            assert bell.wait(timedelta(seconds=5))
            # Tokens go on above all that the lost server may have given.
            holder = Holder(store, lease=timedelta(seconds=1))
            assert holder.exchange(want=holder.want(1)).quiet
            until(lambda: claimed_at_last(holder))
            assert store.held(holder.id)[0].token > 10**15


def _enqueued(store: object) -> bool:
    try:
        add(store)  # type: ignore[arg-type]
    except StoreError:
        return False
    return True


def test_service_that_no_sentinel_knows_is_told(tmp_path: Path) -> None:
    with (
        running(tmp_path / "a", kind="valkey") as primary,
        sentinel(tmp_path / "s", primary) as port,
        closing(open_store(f"redis+sentinel://127.0.0.1:{port}/others")) as store,
        pytest.raises(StoreUnavailable, match="others"),
    ):
        add(store)


def _low_port() -> int:
    """The nodes talk to each other on a port 10,000 above the one they are given."""
    while (port := free_port()) > 55_535:
        pass
    return port


def _is_whole(node: Any) -> bool:
    return b"cluster_state:ok" in node.execute_command("CLUSTER", "INFO")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[RedisServer]]:
    """Three nodes, each with a third of the slots."""
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(
                running(
                    tmp_path / str(n), "--cluster-enabled", "yes", kind="valkey", port=_low_port()
                )
            )
            for n in range(3)
        ]
        clients: list[Any] = [stack.enter_context(raw(node)) for node in nodes]
        for n, client in enumerate(clients):
            first, last = SLOTS * n // 3, SLOTS * (n + 1) // 3 - 1
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        until(lambda: all(map(_is_whole, clients)), 30)
        yield nodes


def test_cluster_keeps_a_name_space_in_one_slot(cluster: list[RedisServer]) -> None:
    for n, node in enumerate(cluster):
        url = f"redis+cluster://127.0.0.1:{node.port}?namespace=app{n}"
        with closing(open_store(url)) as store, closing(store.listen(Topic.READY)) as bell:
            job = add(store)
            assert bell.wait(timedelta(seconds=5))
            holder = Holder(store)
            holder.settle(Complete(holder.take()))
            assert get(store, job).state is State.SUCCEEDED
            assert store.invariants() == ()
            assert "cluster" in store.info().engine


def test_cluster_is_reached_though_a_seed_is_gone(cluster: list[RedisServer]) -> None:
    seeds = ",".join(f"127.0.0.1:{port}" for port in (free_port(), cluster[1].port))
    with closing(open_store(f"redis+cluster://{seeds}?timeout=1")) as store:
        end = time.monotonic() + 10
        while not _enqueued(store):
            assert time.monotonic() < end
