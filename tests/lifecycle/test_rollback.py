"""Another server answers with older data, under running workers: nothing runs twice at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest
import redis
from contract.driver import Holder
from lifecycle.network import LONG, Net, net, start
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Handle, Place
from lifecycle.tasks import steady, steady_sync
from lifecycle.tree import Settings
from servers import PostgresServer, RedisServer

from limpet.domain.state import State

pytestmark = pytest.mark.timeout(120)

LEASE = 5.0
SETTINGS = Settings(lease=LEASE, queues=("all=10", "later=10"))
# With no place left it makes no exchange, which would notice at once.
FULL = replace(SETTINGS, lanes=2, async_jobs=2)
KINDS = ("redis", "postgres", *(("valkey",) if LONG else ()))


@pytest.fixture(params=KINDS)
def some(request: pytest.FixtureRequest) -> Iterator[Net]:
    with net(str(request.param), request) as made:
        yield made


def redis_replica(some: Net) -> RedisServer:
    """One that follows, has everything, and is cut off from now on."""
    replica = start(some.kind, some.folder / "second", some.clock)
    some.others.append(replica)
    assert isinstance(replica, RedisServer)
    with redis.Redis(port=replica.port) as there, redis.Redis(port=some.server.port) as here:
        there.replicaof("127.0.0.1", some.server.port)
        some.place.until(
            lambda: there.info("replication")["master_link_status"] == "up",
            said="the replica follows",
        )
        here.set("mark", some.place.mark)
        some.place.until(lambda: there.get("mark"), said="the replica has everything")
        there.replicaof("NO", "ONE")
    return replica


def postgres_standby(some: Net) -> PostgresServer:
    """The same: a standby that is promoted while its primary goes on."""
    folder = some.folder / "second"
    standby = PostgresServer(folder, environment=some.clock.environment)
    some.others.append(standby)
    standby.run(
        "pg_basebackup", "--host=127.0.0.1", f"--port={some.server.port}", "--username=postgres",
        "--pgdata", standby.data, "--write-recovery-conf", "--checkpoint=fast", "--no-sync",
    )  # fmt: skip
    standby.start()
    with (
        psycopg.connect(some.server.url, autocommit=True) as here,
        psycopg.connect(standby.url, autocommit=True) as there,
    ):
        here.execute("CREATE TABLE mark ()")
        some.place.until(
            lambda: there.execute("SELECT to_regclass('mark')").fetchone() != (None,),
            said="the standby has everything",
        )
        there.execute("SELECT pg_promote()")
    return standby


@contextmanager
def older_data(some: Net) -> Iterator[None]:
    """What happens inside is forgotten at the end, when another server has taken over."""
    other = postgres_standby(some) if some.kind == "postgres" else redis_replica(some)
    yield
    some.server.kill()
    some.proxy.pass_on(other.port)
    some.proxy.cut()
    some.place.look_at(other.url)


def enqueued(queue: str, word: str) -> list[Handle]:
    return [
        steady_sync.using(queue=queue).enqueue(word=word, child=True),
        steady.using(queue=queue).enqueue(word=word),
    ]


def assert_one_after_the_other(place: Place, jobs: list[Handle]) -> None:
    """Run at least twice, the last of which counts, and under other tokens each time."""
    for job in jobs:
        first, *_, last = place.attempts(job)
        assert first.last < last.first
        assert last.token > first.token
        assert place.job(job).result == str(last.token)
        assert place.job(job).counters.failures == 0


def test_a_new_primary_with_older_data_lets_nothing_run_twice_at_once(some: Net) -> None:
    """Jobs that run there by its data, and jobs of which it does not know that they run."""
    place = some.place
    worker = place.worker(settings=FULL)
    place.store.pause("later")
    known, forgotten = enqueued("all", "over"), enqueued("later", "over")
    place.until_begun(*known)
    with older_data(some):
        place.store.pause("later", paused=False)
        place.until_begun(*forgotten)
        other = place.worker(settings=SETTINGS)
        place.session(other)
    place.store.pause("later", paused=False)
    assert {place.job(job).state for job in forgotten} == {State.READY}
    # They run, and whoever comes now would be given them.
    stranger = Holder(place.store, ("steady", "steady_sync"))
    answer = stranger.exchange(want=stranger.want())
    assert (answer.claimed, answer.quiet) == ((), True)
    stranger.die()
    place.until_begun(*known, *forgotten, times=2)
    place.say("over")
    place.until_final([*known, *forgotten])
    assert_one_after_the_other(place, [*known, *forgotten])
    assert "so it was rolled back; a new one begins" in worker.log
    assert "the store does not know session" in other.log
    assert_no_orphans(place)
