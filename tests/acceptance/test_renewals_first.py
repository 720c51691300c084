"""A renewal waits for nobody in the ordinary line, not even for its own process."""

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from limpet.domain.clock import SystemClock
from limpet.domain.errors import StoreRefused
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.domain.session import NewSession, SessionKind, SessionState
from limpet.storage.sqlite.store import SqliteStore

IDS = IdSource(SystemClock())


def register(store: SqliteStore) -> str:
    session = IDS.new()
    store.register(NewSession(session, SessionKind.WORKER, "w", "h", 1))
    return session


def test_a_renewal_passes_a_write_of_its_own_process_that_stands_in_line(tmp_path: Path) -> None:
    store = SqliteStore(f"sqlite:///{tmp_path}/jobs.db")
    session = register(store)
    line = os.open(tmp_path / "jobs.db-limpet" / "next", os.O_RDWR)
    fcntl.flock(line, fcntl.LOCK_EX)
    ordinary = threading.Thread(
        target=lambda: store.enqueue([NewJob(id=IDS.new(), task="t", args="{}")])
    )
    ordinary.start()
    time.sleep(0.2)
    began = time.monotonic()
    store.renew(session)
    waited = time.monotonic() - began
    assert ordinary.is_alive()
    fcntl.flock(line, fcntl.LOCK_UN)
    ordinary.join(20)
    os.close(line)
    assert not ordinary.is_alive()
    assert waited < 5
    store.close()


def test_a_sweep_does_not_end_the_living_sessions_of_another_boot(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    ours, theirs = SqliteStore(url, boot="boot-a"), SqliteStore(url, boot="boot-b")
    ours.migrate()
    assert ours.expire() == ()
    session = register(theirs)
    stop = threading.Event()

    def keep_renewing() -> None:
        while not stop.wait(0.05):
            theirs.renew(session)

    renewing = threading.Thread(target=keep_renewing)
    renewing.start()
    with pytest.raises(StoreRefused, match="written by another machine"):
        ours.expire()
    stop.set()
    renewing.join()
    assert [each.state for each in theirs.sessions()] == [SessionState.LIVE]
    ours.close()
    theirs.close()
