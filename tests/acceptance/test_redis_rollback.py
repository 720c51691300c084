"""A Redis that comes back with older data: sessions are told, and no token is given twice."""

import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from acceptance.redis_place import claimed_at_last, raw, running, until
from contract.driver import Holder, add, add_many, session_of
from redis import Redis
from servers import RedisServer

from limpet.domain.errors import StoreRolledBack
from limpet.domain.session import SessionState
from limpet.storage.registry import open_store

LEASE = timedelta(seconds=1.5)


def test_session_of_a_restored_snapshot_is_told_that_the_store_forgot(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    server = RedisServer(folder).start()
    try:
        with closing(open_store(server.url)) as store:
            jobs = add_many(store, 3)
            holder = Holder(store, lease=LEASE)
            first = holder.take()
            with raw(server) as client:
                client.save()
            second = holder.take()
            late = Holder(store)
            server.kill()
            server.start()
            with pytest.raises(StoreRolledBack, match="the last one in the store is 1"):
                holder.exchange()
            with pytest.raises(StoreRolledBack):
                late.renew()
            # The job that was claimed after the snapshot waits until its holder must have noticed,
            # and gets a token that was never given.
            anew = Holder(store, lease=LEASE)
            assert anew.claim(1) == ()
            until(lambda: claimed_at_last(anew))
            (again,) = store.held(anew.id)
            assert again.job == second.job == jobs[1]
            assert again.token > second.token
            assert first.job == jobs[0]
    finally:
        server.kill()


def test_promoted_replica_with_older_data_gives_no_token_twice(tmp_path: Path) -> None:
    with (
        running(tmp_path / "a") as primary,
        running(tmp_path / "b") as replica,
        raw(replica) as client,
        closing(open_store(primary.url)) as store,
    ):
        client.replicaof("127.0.0.1", primary.port)
        job = add(store)
        holder = Holder(store, lease=timedelta(seconds=1))
        until(lambda: client.hexists("{limpet}:row", job))
        with raw(primary) as first:
            first.wait(1, 1000)
        client.replicaof("NO", "ONE")  # and what follows is lost
        lost = holder.take()
        with closing(open_store(replica.url)) as after:
            with pytest.raises(StoreRolledBack):
                after.exchange(holder.id, 2)
            other = Holder(after, lease=LEASE)
            # Everyone gets one lease of the new server's time before they are given up.
            time.sleep(0.5)
            after.expire()
            assert session_of(after, holder.id).state is SessionState.LIVE
            assert other.exchange(want=other.want(1)).quiet
            until(lambda: claimed_at_last(other))
            (again,) = after.held(other.id)
            assert again.token > lost.token


def _has_older_data(server: "Redis", job: str) -> bool:
    """Whether a server has copied the data of another, in which a job was not claimed."""
    if server.info("replication")["master_link_status"] != "up":
        return False
    row = server.hget("{limpet}:row", job)
    return isinstance(row, bytes) and row[0] == 2


@pytest.mark.parametrize("notices", ["exchange", "renew"])
def test_server_that_copied_older_data_gives_no_token_twice(tmp_path: Path, notices: str) -> None:
    with (
        running(tmp_path / "a") as server,
        running(tmp_path / "b") as standby,
        raw(server) as here,
        raw(standby) as there,
        closing(open_store(server.url)) as store,
    ):
        there.replicaof("127.0.0.1", server.port)
        job = add(store)
        holder = Holder(store, lease=LEASE)
        other = Holder(store, lease=LEASE)
        until(lambda: there.exists(f"{{limpet}}:session/{other.id}"))
        there.replicaof("NO", "ONE")
        lost = holder.take()
        here.replicaof("127.0.0.1", standby.port)
        until(lambda: _has_older_data(here, job), 30)
        here.replicaof("NO", "ONE")
        # The same process of the server, and what it was told last is gone.
        if notices == "renew":
            assert holder.renew(stepped=True).seq == 0
        else:
            with pytest.raises(StoreRolledBack):
                holder.exchange()
        assert other.exchange(want=other.want(1)).quiet
        until(lambda: claimed_at_last(other))
        (again,) = store.held(other.id)
        assert (again.job, again.token > lost.token) == (job, True)


def test_store_that_is_made_again_goes_on_above_the_tokens_of_the_old_one(tmp_path: Path) -> None:
    with running(tmp_path / "a") as server, raw(server) as client:
        with closing(open_store(server.url)) as store:
            add(store)
            lost = Holder(store).take()
        client.flushall()
        with closing(open_store(server.url)) as store:
            add(store)
            assert Holder(store).take().token > lost.token
