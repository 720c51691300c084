"""A Redis that comes back with older data: sessions are told, and no token is given twice."""

import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from acceptance.redis_place import claimed_at_last, raw, running, until
from contract.driver import Holder, add, add_many, session_of
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
            with pytest.raises(StoreRolledBack, match="remembers only 1"):
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
