"""On a store whose leases run on the host's clock, a restart of the host ends every session.

SQLite in a file only, by nature: elsewhere the store's own clock goes on.
"""

from datetime import timedelta
from pathlib import Path

from contract.driver import Holder, add, get, session_of

from limpet.domain.cause import HostRebooted
from limpet.domain.job import Counters
from limpet.domain.session import SessionState
from limpet.domain.state import State
from limpet.storage.sqlite.store import SqliteStore
from limpet.testing.clock import FakeClock


def test_restart_of_the_host_ends_its_sessions_and_recovers_their_jobs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    clock = FakeClock()
    before = SqliteStore(url, clock, boot="first-boot")
    job = add(before)
    holder = Holder(before, lease=timedelta(days=1))
    holder.take(begin=True)
    before.close()
    # The lease has not run out, and the boot clock is far below the session's moment.
    restarted = FakeClock(wall=clock.wall() + 60_000_000, boot=5_000_000)
    after = SqliteStore(url, restarted, boot="second-boot")
    try:
        assert [each.id for each in after.expire()] == [holder.id]
        assert session_of(after, holder.id).state is SessionState.DEAD
        assert session_of(after, holder.id).cause == HostRebooted("first-boot")
        assert after.recover(holder.id).ready == 1
        assert (get(after, job).state, get(after, job).counters) == (
            State.READY,
            Counters(orphans=1),
        )
        assert after.invariants() == ()
    finally:
        after.close()
