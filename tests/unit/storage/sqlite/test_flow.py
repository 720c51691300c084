"""Flows on SQLite, where the contract leaves it to the store."""

from contextlib import closing

from contract.driver import Holder, add, get, new_id, promote_all
from contract.families import child

from limpet.domain.state import State
from limpet.domain.transition import AwaitChildren
from limpet.storage.sqlite.store import SqliteStore


def test_job_that_fans_out_into_a_flow_of_somebody_else_fails_and_refuses_nobody() -> None:
    with closing(SqliteStore("sqlite://")) as store:
        add(store)
        holder = Holder(store)
        lease = holder.take(begin=True)
        flow, below = new_id(), child(lease.job)
        store.stage(flow, 0, [below])
        assert store.commit(flow, 1)
        assert holder.settle(AwaitChildren(lease, flow, 1, 1)) == ()
        assert get(store, lease.job).state is State.FAILED
        promote_all(store)
        assert get(store, below.id).state is State.CANCELLED
        assert store.invariants() == ()
