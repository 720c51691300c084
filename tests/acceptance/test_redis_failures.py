"""What a Redis store says and does when its server is wrong, gone, full, or another."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from acceptance.redis_place import KINDS, PROGRAMS, QUICK, claimed_at_last, raw, running, until
from contract.driver import BOOM, KILLED, Holder, add, add_many, get, new_id, new_job
from servers import RedisServer
from servers.process import free_port

from limpet.domain.errors import (
    InvalidOption,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreRefused,
    StoreRolledBack,
    StoreUnavailable,
    TransactionRefused,
)
from limpet.domain.job import LogLine, Progress, Report
from limpet.domain.session import Standing
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, Settlement
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store, same_store


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    with running(tmp_path / "server", kind=request.param) as some:
        yield some


@pytest.fixture
def store(server: RedisServer) -> Iterator[Store]:
    with closing(open_store(server.url + QUICK)) as some:
        yield some


# -- at start


def test_server_that_is_not_there_is_told_at_once() -> None:
    with closing(open_store(f"redis://127.0.0.1:{free_port()}/0")) as store:
        with pytest.raises(StoreUnavailable, match="cannot be reached .* Check that"):
            add(store)
        with pytest.raises(StoreUnavailable):
            store.listen(Topic.READY)


def test_server_that_never_answers_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"redis://127.0.0.1:{deaf.getsockname()[1]}/0?timeout=0.2"
        with closing(open_store(url)) as store:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                add(store)
            assert time.monotonic() - began < 2


def test_wrong_password_is_refused_and_not_told(tmp_path: Path) -> None:
    with running(tmp_path / "s", "--requirepass", "s3cret") as server:
        for who in ("", "default:wrong@"):
            url = f"redis://{who}127.0.0.1:{server.port}/0"
            with closing(open_store(url)) as store, pytest.raises(StoreRefused) as caught:
                add(store)
            assert "wrong" not in str(caught.value)
        with closing(open_store(f"redis://:s3cret@127.0.0.1:{server.port}/0")) as store:
            add(store)
            assert "s3cret" not in store.info().url


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_server_that_would_throw_jobs_away_is_refused(server: RedisServer, policy: str) -> None:
    with raw(server) as client:
        client.config_set("maxmemory-policy", policy)
    with closing(open_store(server.url)) as store:
        with pytest.raises(StoreRefused, match=f"{policy}.*noeviction"):
            add(store)
        with raw(server) as client:
            client.config_set("maxmemory-policy", "noeviction")
            assert client.dbsize() == 0
        add(store)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://host:port/0", "write redis://"),
        ("redis://host/zero", "write redis://"),
        ("redis+sentinel://host:1", "service is missing"),
        ("redis+cluster://host:1/3", "only database 0"),
        ("redis://host?namespace={x}", "namespace"),
        ("redis://host?timeout=no", "timeout"),
        ("redis://host?colour=red", "unknown setting colour"),
        ("unix://", "write redis://"),
    ],
)
def test_url_that_cannot_be_used_is_refused_with_a_sentence(url: str, reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis+ssl://user:s3cret@host/0",
        "redis:/user:s3cret@host/0",
        "redis://:abc?s3cret@host:6379/0",
        "redis://user:s3cret@host:port/0",
    ],
)
def test_url_that_is_refused_does_not_show_its_password(url: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        open_store(url)
    assert "s3cret" not in str(refused.value)


def test_same_place_is_known_however_it_is_written() -> None:
    assert same_store("redis://a:6379/0", "valkey://:pw@a")
    assert same_store("redis+cluster://b,a", "redis+cluster://a:6379,b")
    assert not same_store("redis://a/0", "redis://a/1")
    assert not same_store("redis://a", "redis://a?namespace=other")


def test_name_spaces_of_one_server_do_not_meet(server: RedisServer) -> None:
    with (
        closing(open_store(server.url)) as one,
        closing(open_store(f"{server.url}?namespace=other")) as two,
    ):
        job = add(one)
        assert two.job(job) is None
        assert Holder(two).claim() == ()
        assert Holder(one).claim_ids() == [job]


def test_connection_of_another_database_is_refused(store: Store) -> None:
    with pytest.raises(TransactionRefused, match="after your transaction has committed"):
        store.enqueue_within(object(), [new_job()])


# -- while it runs


def test_flushed_script_cache_is_filled_again(server: RedisServer, store: Store) -> None:
    job = add(store)
    with raw(server) as client:
        client.script_flush()
    assert Holder(store).claim_ids() == [job]


def test_restart_of_the_server_is_survived(server: RedisServer, store: Store) -> None:
    add(store)
    server.kill()
    with pytest.raises(StoreUnavailable):
        add(store)
    server.start()
    add(store)


def test_command_that_hangs_is_given_up_and_its_late_answer_is_nobodys(
    server: RedisServer, store: Store
) -> None:
    job = add(store)
    server.signal(signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable, match="in time"):
            add(store)
    finally:
        server.signal(signal.SIGCONT)
    assert get(store, job).state is State.READY


def test_flushed_store_is_made_anew_and_sessions_are_told(
    server: RedisServer, store: Store
) -> None:
    add(store)
    holder = Holder(store)
    lost = holder.take()
    epoch = store.info().epoch
    with raw(server) as client:
        client.flushall()
    with pytest.raises(StoreRolledBack):
        holder.renew()
    with pytest.raises(StoreRolledBack):
        holder.exchange()
    assert store.info().epoch != epoch
    job = add(store)
    # Nobody knows which tokens were given before, nor what still runs elsewhere.
    anew = Holder(store, lease=timedelta(seconds=1))
    assert anew.exchange(want=anew.want(1)).quiet
    until(lambda: claimed_at_last(anew))
    assert store.held(anew.id)[0].token > lost.token
    assert get(store, job).state is State.RUNNING


def _fill(server: RedisServer) -> None:
    with raw(server) as client:
        used = client.info("memory")["used_memory"]
        client.config_set("maxmemory", used - 1_000_000)


@pytest.mark.parametrize("name", PROGRAMS)
def test_full_memory_refuses_new_jobs_and_lets_the_others_finish(tmp_path: Path, name: str) -> None:
    with (
        running(tmp_path / "server", binary=PROGRAMS[name]) as server,
        closing(open_store(server.url)) as store,
    ):
        jobs = add_many(store, 5)
        holder = Holder(store)
        leases = [each.lease for each in holder.claim(4)]
        store.cancel(leases[3].job)
        _fill(server)
        late = new_job()
        with pytest.raises(StoreFull, match="memory limit.*nothing was written"):
            store.enqueue([late])
        assert store.job(late.id) is None
        with pytest.raises(StoreFull):
            store.enqueue([new_job(expires_at=2**50)], fence=leases[0])
        assert holder.renew(begun=leases).standing is Standing.LIVE
        outcomes: list[Settlement] = [Complete(leases[0], '"done"'), Fail(leases[1], BOOM)]
        answer = holder.exchange(*outcomes, want=holder.want(1))
        assert (answer.rejected, len(answer.claimed)) == ((), 1)
        assert store.release(holder.id, leases[2:3], KILLED) == ()
        other = Holder(store)
        assert other.claim_ids() == [jobs[2]]
        other.vanish()
        assert store.promote().more is False
        holder.die()
        assert store.recover(holder.id).jobs == 2
        assert store.retry(jobs[0], 1) == 2
        assert store.invariants() == ()
        with raw(server) as client:
            client.config_set("maxmemory", 0)
        assert store.enqueue([late])[0].outcome == "new"


@pytest.mark.parametrize("name", PROGRAMS)
def test_full_memory_keeps_progress_and_leaves_lines_out(tmp_path: Path, name: str) -> None:
    with (
        running(tmp_path / "server", binary=PROGRAMS[name]) as server,
        closing(open_store(server.url)) as store,
    ):
        add(store)
        holder = Holder(store)
        lease = holder.take()

        def say(word: str, done: int) -> None:
            lines = (LogLine(done, "info", word),) * 3
            assert (
                store.report(holder.id, [Report(lease, Progress(done, None, "", 1), lines)]) == ()
            )

        say("before", 1)
        _fill(server)
        for done in (2, 3, 4):
            say("meanwhile", done)
        with raw(server) as client:
            client.config_set("maxmemory", 0)
        say("after", 5)
        messages = [line.message for line in store.log(lease.job)]
        assert messages[:3] + messages[4:] == ["before"] * 3 + ["after"] * 3
        assert "memory limit" in messages[3]
        progress = get(store, lease.job).progress
        assert progress is not None
        assert progress.done == 5


def test_replica_is_told_as_such(server: RedisServer, store: Store) -> None:
    add(store)
    with raw(server) as client:
        client.replicaof("127.0.0.1", free_port())
    with pytest.raises(StoreReadOnly, match="read-only replica"):
        add(store)
    with raw(server) as client:
        client.replicaof("NO", "ONE")
    add(store)


def test_server_that_still_loads_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    with running(folder) as server, raw(server) as client:
        pipe = client.pipeline()
        for n in range(40):
            pipe.set(f"k{n}", os.urandom(1_000_000))
        pipe.execute()
        client.save()
    # A pause for each key makes loading last; the server looks up after every two megabytes.
    slowly = ("--key-load-delay", "50000")
    with (
        running(folder, *slowly) as server,
        closing(open_store(server.url)) as store,
        pytest.raises(StoreUnavailable, match="still loading"),
    ):
        add(store)


# -- threads and processes


def test_many_threads_may_speak_at_once(store: Store) -> None:
    errors: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(50):
                add(store)
        except StoreError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert store.queues()[0].counts == {State.READY: 400}


def test_child_starts_anew_and_the_parent_goes_on(store: Store) -> None:
    add(store)
    job = new_job()
    with closing(store.listen(Topic.READY)) as bell:
        child = os.fork()
        if child == 0:
            try:
                with closing(store.listen(Topic.DONE)):
                    store.enqueue([job])
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert bell.wait(timedelta(seconds=10))
        add(store)
    assert store.queues()[0].counts == {State.READY: 3}


def test_durability_is_told_as_configured(tmp_path: Path) -> None:
    for number, (options, words) in enumerate(
        {
            ("--save", ""): "memory only",
            ("--save", "900", "1"): "snapshots only (save 900 1)",
            ("--appendonly", "yes"): "appendfsync everysec: a crash of the server or",
            ("--appendonly", "yes", "--appendfsync", "always"): "before it is answered",
        }.items()
    ):
        with (
            running(tmp_path / str(number), *options) as server,
            closing(open_store(server.url)) as store,
        ):
            assert words in store.info().durability


def test_unknown_session_and_job_are_told_in_production_too(store: Store) -> None:
    with pytest.raises(StoreRolledBack):
        store.renew(new_id())
    assert store.job(new_id()) is None
