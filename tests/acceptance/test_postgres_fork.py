"""A forked child has connections and bells of its own; the parent's go on."""

import os
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from contract.driver import EVERY_BACKEND, Holder, add, get

from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.bell import Topic
from limpet.storage.postgres.store import PostgresStore

PATIENCE = timedelta(seconds=10)


def in_child(work: object) -> int:
    """Fork, do it there, and say how it ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert callable(work)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_child_and_parent_use_one_store_without_each_others_connections(tmp_path: Path) -> None:
    with closing(PostgresStore(EVERY_BACKEND["postgres"](tmp_path))) as store:
        job = add(store)
        bell = store.listen(Topic.DONE)

        def child() -> None:
            holder = Holder(store)
            with closing(store.listen(Topic.READY)) as own:
                more = add(store)
                assert own.wait(PATIENCE)
            leases = [each.lease for each in holder.claim()]
            assert {lease.job for lease in leases} == {job, more}
            assert holder.settle(*(Complete(lease) for lease in leases)) == ()
            store.close()

        assert in_child(child) == 0
        assert bell.wait(PATIENCE)
        assert get(store, job).state is State.SUCCEEDED
        bell.close()
        assert store.invariants() == ()


def test_fork_while_other_threads_write_hangs_nobody(tmp_path: Path) -> None:
    with closing(PostgresStore(EVERY_BACKEND["postgres"](tmp_path))) as store:
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                add(store)

        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(10):
                assert in_child(lambda: add(store)) == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert store.invariants() == ()
