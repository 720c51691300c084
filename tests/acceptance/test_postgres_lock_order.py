"""Everything that locks the rows of few keys, at once, from several processes: no deadlock."""

from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import psycopg
from acceptance.key_crowd import act
from acceptance.postgres_place import open_folder, running
from contract.driver import promote_all
from servers.postgres import PostgresServer

from limpet.storage.postgres.store import PostgresStore

SECONDS = 2.5
PROCESSES = 4
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
        promote_all(store)
        assert store.invariants() == ()


def _deadlocks_in(log: Path) -> str:
    """What the server says of the last that was met."""
    return log.read_text().rpartition("deadlock detected")[2][:4_000]
