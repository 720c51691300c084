"""Who may use a Redis store, and how the way to it is kept private."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from acceptance.redis_place import KINDS, PROGRAMS, running
from acceptance.whole_life import live
from contract.driver import KILLED, Holder, add, add_many
from contract.gates import CORE, ROOM, Gated
from contract.test_permits import caller
from servers import RedisServer
from servers.relay import Relay
from servers.tls import Authority, TlsRelay

from limpet.domain.errors import SchemaMismatch, StoreRefused, StoreUnavailable
from limpet.domain.host import Sample, Span
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store, Want
from limpet.storage.redis.schema import NEWEST
from limpet.storage.registry import open_store

# As in docs/concepts/redis.md.
DOCS = Path(__file__).resolve().parents[2] / "docs" / "concepts" / "redis.md"


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    with running(tmp_path / "server", kind=request.param) as some:
        yield some


def test_server_that_is_too_old_is_refused(server: RedisServer) -> None:
    with redis.Redis(port=server.port) as client:
        told = str(client.info("server")["redis_version"])
    older = "6.0" + told[3:]
    swaps = {f"redis_version:{told}".encode(): f"redis_version:{older}".encode(),
             b"valkey_version:": b"unknown_version"}  # fmt: skip
    with (
        Relay(server.port, swaps) as relay,
        closing(open_store(f"redis://127.0.0.1:{relay.port}/0")) as store,
    ):
        with pytest.raises(StoreRefused, match=rf"Redis {older}; Limpet needs 6.2"):
            add(store)
        with pytest.raises(StoreRefused, match="needs 6.2"):
            store.migrate()
    with redis.Redis(port=server.port) as client:
        assert client.dbsize() == 0


def test_older_store_is_refused_until_it_is_migrated(server: RedisServer) -> None:
    with closing(open_store(server.url)) as store, redis.Redis(port=server.port) as client:
        job = add(store)
        epoch = store.info().epoch
        stamp = dict.fromkeys(("version", "oldest_allowed", "newest_allowed"), NEWEST - 1)
        client.hset("{limpet}:store", mapping=stamp)
    with closing(open_store(server.url)) as store:
        with pytest.raises(SchemaMismatch, match=r"older Limpet.*Run `limpet migrate`"):
            add(store)
        assert store.migrate() == (f"brought it to schema {NEWEST}",)
        assert store.migrate() == ()
        assert (store.info().schema_version, store.info().epoch) == (NEWEST, epoch)
        assert list(store.states([job])) == [job]


def test_newer_version_shuts_out_code_that_is_connected_already(server: RedisServer) -> None:
    """As `migrate.lua` says that it is done: with another name for the epoch."""
    key = "{limpet}:store"
    with closing(open_store(server.url)) as store, redis.Redis(port=server.port) as client:
        add(store)
        client.hset(key, "epoch_of_next", client.hget(key, "store_epoch") or b"")
        client.hdel(key, "store_epoch")
        stamp = dict.fromkeys(("version", "oldest_allowed", "newest_allowed"), NEWEST + 1)
        client.hset(key, mapping=stamp)
        with pytest.raises(SchemaMismatch, match="newer Limpet"):
            add(store)
        assert client.zcard("{limpet}:all") == 1


def test_keys_without_a_version_are_left_alone(server: RedisServer) -> None:
    with closing(open_store(server.url)) as store, redis.Redis(port=server.port) as client:
        client.hset("{limpet}:store", "goods", "tea")
        for use in (lambda: add(store), store.migrate):
            with pytest.raises(SchemaMismatch, match="no version; restore a backup"):
                use()
        assert client.hgetall("{limpet}:store") == {b"goods": b"tea"}


def test_user_with_the_documented_rights_lives_a_whole_life(server: RedisServer) -> None:
    (rule,) = [line for line in DOCS.read_text().splitlines() if line.startswith("ACL SETUSER")]
    with redis.Redis(port=server.port) as client:
        client.execute_command(*rule.replace("PASSWORD", "s3cret").split())
    with closing(open_store(f"redis://limpet:s3cret@127.0.0.1:{server.port}/0")) as own:
        assert own.migrate() == ("made the store",)
        live(own)
        pass_the_gate(own)
    other = f"redis://limpet:s3cret@127.0.0.1:{server.port}/0?namespace=other"
    with closing(open_store(other)) as store, pytest.raises(StoreRefused, match="name space"):
        add(store)
    with redis.Redis(port=server.port, username="limpet", password="s3cret") as client:
        for words in (("GET", "mine"), ("FLUSHALL",), ("CONFIG", "SET", "save", "")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)


def pass_the_gate(store: Store) -> None:
    """Permits of jobs and of callers, a reservation, a host."""
    add_many(store, 2, task="render", queue="gated")
    holder = Gated(store, room=ROOM._replace(cpu=1_000))
    want = Want((holder.pool(),), holder.gate()._replace(reserve_after_us=0))
    (held,) = holder.exchange(want=want).claimed
    assert len(store.permits("web-1")) == len(store.permits()) == len(store.reservations()) == 1
    me = caller(store)
    assert store.take_permit(me, CORE, ROOM._replace(server="web-2"))
    assert store.end(me, KILLED)
    assert holder.settle(Complete(held.lease)) == ()
    store.publish_host("web-1", "{}", timedelta(minutes=1), [Sample(Span.MINUTE, 1, "[]")])
    assert len(store.hosts()) == 1
    assert store.samples("web-1", Span.MINUTE) == ()
    assert store.permits() == ()


@pytest.fixture(params=PROGRAMS)
def any_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    with running(tmp_path / "server", binary=PROGRAMS[request.param]) as some:
        yield some


def test_user_that_lacks_a_right_is_refused_before_anything_is_written(
    any_server: RedisServer,
) -> None:
    user = ("ACL", "SETUSER", "poor", "reset", "on", "nopass", "~*", "&*", "+@all")
    with redis.Redis(port=any_server.port) as client:
        for lacks in ("resetchannels", "-publish", "-info", "-hset"):
            client.execute_command(*user, lacks)
            with (
                closing(open_store(f"redis://poor:x@127.0.0.1:{any_server.port}/0")) as store,
                pytest.raises(StoreRefused, match=r"channels of its name space.*ACL rule"),
            ):
                add(store)
            assert client.dbsize() == 0


def test_job_is_told_as_written_though_its_bell_may_not_be_rung_any_more(
    any_server: RedisServer,
) -> None:
    user = ("ACL", "SETUSER", "poor", "on", "nopass", "~*", "&*", "+@all")
    with (
        redis.Redis(port=any_server.port) as client,
        closing(open_store(f"redis://poor:x@127.0.0.1:{any_server.port}/0")) as store,
    ):
        client.execute_command(*user)
        add(store)
        client.execute_command(*user, "resetchannels")
        jobs = [add(store), add(store)]
        client.execute_command(*user, "-publish")
        jobs.append(add(store))
        assert set(store.states(jobs).values()) == {State.READY}
        # What a script may not do at all is a refusal too.
        client.execute_command(*user, "-zrem")
        with pytest.raises(StoreRefused, match="name space"):
            store.cancel(jobs[0])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_store_is_used_through_tls(server: RedisServer, authority: Authority) -> None:
    with TlsRelay(server.port, authority) as relay:
        url = f"rediss://localhost:{relay.port}/0"
        with closing(open_store(f"{url}?ca={authority.ca}")) as store:
            with closing(store.listen(Topic.READY)) as bell:
                add(store)
                assert bell.wait(timedelta(seconds=10))
            Holder(store).take()
            assert store.info().url.startswith("rediss://")
        with (
            closing(open_store(url)) as store,
            pytest.raises(StoreUnavailable, match="certificate"),
        ):
            add(store)
        # The certificate is for another name than the one that was asked for.
        with (
            closing(
                open_store(f"{url.replace('localhost', '127.0.0.1')}?ca={authority.ca}")
            ) as store,
            pytest.raises(StoreUnavailable, match="certificate"),
        ):
            add(store)
