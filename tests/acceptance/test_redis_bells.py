"""Bells of a Redis store ring once for each script, and come back when their connection is lost."""

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from acceptance.redis_place import KINDS, QUICK, raw, running
from contract.driver import add, add_many
from servers import RedisServer

from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    with running(tmp_path / "server", kind=request.param) as some:
        yield some


@pytest.fixture
def store(server: RedisServer) -> Iterator[Store]:
    with closing(open_store(server.url + QUICK)) as some:
        yield some


def test_bell_rings_once_after_its_connection_was_lost(server: RedisServer, store: Store) -> None:
    with closing(store.listen(Topic.READY)) as bell:
        with raw(server) as client:
            client.client_kill_filter(_type="pubsub")
        assert bell.wait(timedelta(seconds=10))
        assert not bell.wait(timedelta(milliseconds=100))
        add(store)
        assert bell.wait(timedelta(seconds=10))


def test_bell_rings_once_for_many_jobs(server: RedisServer, store: Store) -> None:
    add(store)
    with raw(server) as client, closing(store.listen(Topic.READY)) as bell:
        before = client.info("commandstats")["cmdstat_publish"]["calls"]
        add_many(store, 100)
        assert bell.wait(timedelta(seconds=10))
        assert client.info("commandstats")["cmdstat_publish"]["calls"] == before + 1


def test_bells_come_back_after_a_restart_of_the_server(server: RedisServer, store: Store) -> None:
    with closing(store.listen(Topic.READY)) as bell:
        server.kill()
        time.sleep(0.2)
        server.start()
        assert bell.wait(timedelta(seconds=10))
        add(store)
        assert bell.wait(timedelta(seconds=10))


def test_bell_that_is_refused_asks_less_and_less_and_rings_when_it_is_heard_again(
    server: RedisServer,
) -> None:
    with raw(server) as operator:
        client: Any = operator
        user = ("ACL", "SETUSER", "bells")
        client.execute_command(*user, "on", "nopass", "~*", "&*", "+@all")
        url = f"redis://bells:x@127.0.0.1:{server.port}/0"
        with closing(open_store(url)) as store, closing(store.listen(Topic.READY)) as bell:
            client.execute_command(*user, "-subscribe")
            before = client.info("stats")["total_connections_received"]
            client.client_kill_filter(_type="pubsub")
            assert not bell.wait(timedelta(seconds=1.2))
            tried = client.info("stats")["total_connections_received"] - before
            assert 1 <= tried < 8
            client.execute_command(*user, "+subscribe")
            assert bell.wait(timedelta(seconds=10))
