"""Everything that locks the rows of few keys, at once, from several processes: no deadlock."""

import time
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import psycopg
from acceptance.key_crowd import KEYS, act
from acceptance.postgres_place import open_folder, running
from contract.driver import KILLED, Holder, promote_all
from servers.postgres import PostgresServer

from limpet.domain.job import ClaimedJob
from limpet.domain.state import FINAL, State
from limpet.domain.transition import Complete
from limpet.storage.postgres.store import PostgresStore

SECONDS = 2.0
PROCESSES = 4
_PATIENCE_SECONDS = 30
_OVER = {*FINAL, State.QUARANTINED}
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


def test_all_who_lock_the_rows_of_few_keys_do_so_in_one_order() -> None:
    context = get_context("spawn")
    # So that one that is met does not keep the others from being met.
    with (
        open_folder() as folder,
        running(PostgresServer(folder, deadlock_timeout="20ms")) as server,
        closing(PostgresStore(server.url)) as store,
    ):
        store.migrate()
        crowd = [
            context.Process(target=act, args=(server.url, SECONDS), daemon=True)
            for _ in range(PROCESSES)
        ]
        for process in crowd:
            process.start()
        for process in crowd:
            process.join(SECONDS + 60)
        with psycopg.connect(server.url) as connection:
            met = connection.execute(DEADLOCKS).fetchone()
        assert met == (0,), _deadlocks_in(folder / "server.log")
        assert [process.exitcode for process in crowd] == [0] * PROCESSES
        assert store.invariants() == ()
        _drain(store)
        assert store.invariants() == ()


def _drain(store: PostgresStore) -> None:
    """Do all that the crowd left: nobody may wait for a turn that was forgotten."""
    for session in store.sessions():
        store.end(session.id, KILLED)
        store.recover(session.id)
    for key in KEYS:
        store.limit_key(key, None)
    holder = Holder(store, "abc")
    until = time.monotonic() + _PATIENCE_SECONDS
    done: tuple[ClaimedJob, ...] = ()
    while any(state not in _OVER for view in store.queues() for state in view.counts):
        assert time.monotonic() < until, store.queues()
        told = [Complete(each.lease) for each in done]
        done = holder.exchange(*told, want=holder.want(100, suspects=5)).claimed
        if not done:
            promote_all(store)


def _deadlocks_in(log: Path) -> str:
    """What the server says of the last that was met."""
    return log.read_text().rpartition("deadlock detected")[2][:4_000]
