"""A claim waits for no disk, and is on it a moment later; everything else waits."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import apsw
import pytest
from contract.driver import new_job

from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.transition import Complete
from limpet.storage.contract.store import ANY_QUEUE, Pool, Want
from limpet.storage.sqlite import late_sync
from limpet.storage.sqlite.store import SqliteStore
from limpet.storage.sqlite.transaction import Transaction

T = TypeVar("T")
NORMAL, FULL = 1, 2


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(f"sqlite:///{tmp_path}/jobs.db")
    opened.enqueue([new_job() for _ in range(3)])
    yield opened
    opened.close()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were synced late, by name."""
    names: list[str] = []
    real = late_sync._sync

    def sync(descriptor: int) -> None:
        real(descriptor)
        names.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr(late_sync, "_sync", sync)
    return names


def beside(work: Callable[[], T]) -> T:
    """In a thread of its own, where a store writes without a detour."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def how_synced(store: SqliteStore, *, synced: bool) -> int:
    """How the writing connection is set while a verb is done."""

    def look() -> int:
        def verb(tx: Transaction) -> int:
            return int(str(tx.connection.pragma("synchronous")))

        return store._db.write(verb, synced=synced)

    return beside(look)


def test_only_what_may_be_undone_by_a_power_cut_is_committed_without_a_sync(
    store: SqliteStore,
) -> None:
    assert how_synced(store, synced=False) == NORMAL
    assert how_synced(store, synced=True) == FULL


def test_a_claim_is_synced_late_and_an_outcome_at_once(
    store: SqliteStore, synced: list[str]
) -> None:
    new = NewSession(
        IdSource(SystemClock()).new(), SessionKind.WORKER, "w", "h", 1, timedelta(minutes=1),
        tasks=frozenset({"task"}),
    )  # fmt: skip
    want = Want((Pool(store.register(new).tasks, {ANY_QUEUE: 2}, 2),))
    claimed = beside(lambda: store.exchange(new.id, 1, (), want)).claimed
    assert len(claimed) == 2
    done = threading.Event()
    while not synced:
        assert not done.wait(0.001)
    assert synced == ["jobs.db-wal"]
    told = [Complete(each.lease) for each in claimed]
    beside(lambda: store.exchange(new.id, 2, told, want))
    assert not done.wait(0.05)
    assert synced == ["jobs.db-wal"]
    assert how_synced(store, synced=True) == FULL


def test_a_connection_that_cannot_be_set_back_is_not_used_again(store: SqliteStore) -> None:
    def break_it() -> None:
        def verb(tx: object) -> None:
            used = store._db._connections._writer
            assert used is not None

            def refuse(_: object, text: str, __: object) -> bool:
                if "synchronous" in text:
                    raise apsw.SQLError("no")
                return True

            used.exec_trace = refuse

        store._db.write(verb, synced=False)

    beside(break_it)
    assert how_synced(store, synced=True) == FULL
    assert len(store.enqueue([new_job()])) == 1
