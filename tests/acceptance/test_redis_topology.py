"""Redis behind a Sentinel and in a cluster: the store finds the server that has the name space."""

import signal
import socket
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

from limpet.domain.errors import StoreError, StoreUnavailable, StoreUnreachable
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.bell import Topic
from limpet.storage.redis.store import RedisStore
from limpet.storage.registry import open_store

SLOTS = 16_384


@contextmanager
def sentinel(folder: Path, primary: RedisServer, *more: str) -> Iterator[int]:
    """One Sentinel that watches a primary and gives it up after half a second."""
    folder.mkdir()
    port = free_port()
    settings = folder / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor jobs 127.0.0.1 {primary.port} 1\n"
        f"sentinel down-after-milliseconds jobs 500\n"
        f"sentinel failover-timeout jobs 3000\n" + "".join(f"{line}\n" for line in more)
    )
    process = Process(folder / "log")

    def answers() -> bool:
        try:
            with redis.Redis(port=port) as client:
                return bool(client.ping())
        except redis.AuthenticationError:
            return True
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


def test_sentinels_may_ask_for_a_password_of_their_own(tmp_path: Path) -> None:
    with (
        running(tmp_path / "a", "--requirepass", "s3rver", kind="valkey") as primary,
        sentinel(
            tmp_path / "s", primary, "requirepass w4tch", "sentinel auth-pass jobs s3rver"
        ) as port,
    ):
        base = f"redis+sentinel://:s3rver@127.0.0.1:{port}/jobs/0"
        for query in ("", "?sentinel_password=wr0ng"):
            with closing(open_store(base + query)) as store, pytest.raises(StoreError) as caught:
                add(store)
            assert "Sentinel" in str(caught.value)
            assert not any(word in str(caught.value) for word in ("s3rver", "w4tch", "wr0ng"))
        with closing(open_store(f"{base}?sentinel_password=w4tch")) as store:
            add(store)
            assert "w4tch" not in store.info().url


def test_sentinel_that_answered_is_asked_first(tmp_path: Path) -> None:
    with (
        running(tmp_path / "a", kind="valkey") as primary,
        sentinel(tmp_path / "s", primary) as port,
        socket.create_server(("127.0.0.1", 0)) as deaf,
    ):
        hosts = f"127.0.0.1:{deaf.getsockname()[1]},127.0.0.1:{port}"
        with closing(RedisStore(f"redis+sentinel://{hosts}/jobs/0?timeout=1")) as store:
            for _ in range(3):
                add(store)
                store._link.connections.forget()
        deaf.setblocking(False)
        deaf.accept()[0].close()
        with pytest.raises(BlockingIOError):
            deaf.accept()


def test_replica_that_a_sentinel_names_is_not_taken_for_the_primary(tmp_path: Path) -> None:
    with (
        running(tmp_path / "a", kind="valkey") as primary,
        running(
            tmp_path / "b", "--replicaof", f"127.0.0.1 {primary.port}", kind="valkey"
        ) as replica,
        sentinel(tmp_path / "s", replica) as port,
        closing(open_store(f"redis+sentinel://127.0.0.1:{port}/jobs/0")) as store,
        pytest.raises(StoreUnreachable, match="name .*'jobs', but it is a replica"),
    ):
        add(store)


def test_verb_goes_on_at_the_new_primary_when_the_old_one_has_become_a_replica(
    tmp_path: Path,
) -> None:
    with (
        running(tmp_path / "a", kind="valkey") as old,
        running(tmp_path / "b", kind="valkey") as new,
        raw(old) as client,
        sentinel(tmp_path / "s", old) as port,
        redis.Redis(port=port) as watcher,
        closing(open_store(f"redis+sentinel://127.0.0.1:{port}/jobs/0")) as store,
    ):
        add(store)
        watcher.execute_command("SENTINEL", "REMOVE", "jobs")
        watcher.execute_command("SENTINEL", "MONITOR", "jobs", "127.0.0.1", new.port, 1)
        client.replicaof("127.0.0.1", free_port())
        add(store)
        with raw(new) as there:
            assert there.exists("{limpet}:store")


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


def test_bell_hangs_at_the_node_that_has_the_name_space(cluster: list[RedisServer]) -> None:
    for node in cluster:
        with closing(RedisStore(f"redis+cluster://127.0.0.1:{node.port}")) as store:
            with closing(store.listen(Topic.READY)):
                assert store._bells._connection is not None
                heard_at = store._bells._connection.address
            add(store)
            assert store._link.connections._address == heard_at


def test_cluster_is_reached_though_a_seed_is_gone(cluster: list[RedisServer]) -> None:
    seeds = ",".join(f"127.0.0.1:{port}" for port in (free_port(), cluster[1].port))
    with closing(open_store(f"redis+cluster://{seeds}?timeout=1")) as store:
        end = time.monotonic() + 10
        while not _enqueued(store):
            assert time.monotonic() < end


def test_slot_that_is_being_moved_is_told_and_nothing_is_half_done(
    cluster: list[RedisServer],
) -> None:
    with closing(open_store(f"redis+cluster://127.0.0.1:{cluster[0].port}?timeout=2")) as store:
        jobs = [add(store) for _ in range(5)]
        holder = Holder(store)
        lease = holder.take()
        nodes: list[Any] = [redis.Redis(port=node.port) for node in cluster]
        slot = nodes[0].execute_command("CLUSTER", "KEYSLOT", "{limpet}:store")
        names = [node.execute_command("CLUSTER", "MYID").decode() for node in nodes]
        here = slot * 3 // SLOTS
        there = (here + 1) % 3
        nodes[there].execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", names[here])
        nodes[here].execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", names[there])
        moved = 0
        while True:
            # A new queue needs keys that are nowhere yet, the worst that can happen to a script.
            for verb in (
                lambda: add(store, queue="another"),
                lambda: store.exchange(holder.id, 2, [Complete(lease)]),
                lambda: store.cancel(jobs[3]),
                holder.renew,
            ):
                with pytest.raises(StoreUnavailable, match="moving the slot"):
                    verb()
            keys = nodes[here].execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1)
            if not keys:
                break
            nodes[here].execute_command(
                "MIGRATE", "127.0.0.1", cluster[there].port, keys[0], 0, 5000
            )
            moved += 1
        assert moved > 10
        for node in (there, here):
            nodes[node].execute_command("CLUSTER", "SETSLOT", slot, "NODE", names[there])
        until(lambda: _enqueued(store), 10)
        assert store.invariants() == ()
        assert store.exchange(holder.id, 2, [Complete(lease)]).rejected == ()
        assert sum(store.queues()[0].counts.values()) == 6
        for node in nodes:
            node.close()
