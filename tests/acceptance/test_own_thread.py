"""A write in the caller's own thread: only where nobody waits, and never in the main thread."""

import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TypeVar

import pytest

from limpet.domain.clock import SystemClock
from limpet.domain.errors import LimpetError, StoreUnavailable
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.domain.state import State
from limpet.storage.sqlite import database
from limpet.storage.sqlite.store import SqliteStore

T = TypeVar("T")
IDS = IdSource(SystemClock())


def new_job() -> NewJob:
    return NewJob(id=IDS.new(), task="t", args="{}")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(f"sqlite:///{tmp_path}/jobs.db?synchronous=normal")
    try:
        yield opened
        assert opened.invariants() == ()
    finally:
        opened.close()


def in_thread(work: Callable[[], T]) -> T:
    """Do it in a thread that is not the main one, and hand on what it raises."""
    answers: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            answers.append(work())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    if errors:
        raise errors[0]
    return answers[0]


def test_a_thread_that_is_alone_needs_no_other(store: SqliteStore) -> None:
    (receipt,) = in_thread(lambda: store.enqueue([new_job()]))
    assert receipt.outcome == "new"
    assert store._db._threads == {}


def test_the_main_thread_leaves_it_to_the_writing_thread(store: SqliteStore) -> None:
    store.enqueue([new_job()])
    assert set(store._db._threads) == {False}


def test_a_thread_stands_in_line_behind_other_processes(store: SqliteStore, tmp_path: Path) -> None:
    in_thread(lambda: store.enqueue([new_job()]))
    for name in ("next", "urgent", "turn"):
        line = os.open(tmp_path / "jobs.db-limpet" / name, os.O_RDWR)
        fcntl.flock(line, fcntl.LOCK_EX)
        job = new_job()
        waiting = threading.Thread(target=lambda job=job: store.enqueue([job]))
        waiting.start()
        time.sleep(0.1)
        assert waiting.is_alive(), name
        assert store.states([job.id]) == {}
        os.close(line)
        waiting.join(60)
        assert store.states([job.id]) == {job.id: State.READY}


def test_a_refused_write_leaves_nothing_and_the_next_one_goes_on(store: SqliteStore) -> None:
    in_thread(lambda: store.enqueue([new_job()]))
    with pytest.raises(LimpetError, match="no job"):
        in_thread(lambda: store.cancel(IDS.new()))
    assert in_thread(lambda: store.enqueue([new_job()]))[0].outcome == "new"
    assert store._db._threads == {}


def test_a_closed_store_says_so_in_every_thread(tmp_path: Path) -> None:
    store = SqliteStore(f"sqlite:///{tmp_path}/jobs.db")
    in_thread(lambda: store.enqueue([new_job()]))
    store.close()
    with pytest.raises(StoreUnavailable, match="closed by this program"):
        in_thread(lambda: store.enqueue([new_job()]))


def test_the_log_stays_short_though_only_threads_write(store: SqliteStore, tmp_path: Path) -> None:
    def fill() -> None:
        for _ in range(40):
            store.enqueue([new_job() for _ in range(1_000)])

    in_thread(fill)
    deadline = time.monotonic() + 30
    while store._db._connections.checkpoint_is_due() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not store._db._connections.checkpoint_is_due()
    assert os.path.getsize(tmp_path / "jobs.db-wal") < 40 * 1_000 * 500


def test_many_threads_lose_nothing_and_write_nothing_twice(store: SqliteStore) -> None:
    jobs = [[new_job() for _ in range(40)] for _ in range(8)]

    def write(mine: list[NewJob]) -> None:
        for job in mine:
            store.enqueue([job])

    threads = [threading.Thread(target=write, args=(mine,)) for mine in jobs]
    for thread in threads:
        thread.start()
    store.pause("elsewhere")
    for thread in threads:
        thread.join(60)
    ids = [job.id for mine in jobs for job in mine]
    assert store.states(ids) == dict.fromkeys(ids, State.READY)


def test_a_signal_handler_of_the_main_thread_may_write(store: SqliteStore) -> None:
    """It interrupts a write that the main thread waits for, and is answered before it."""
    written: list[str] = []
    stop, heard = threading.Event(), threading.Event()

    def handler(_number: int, _frame: FrameType | None) -> None:
        job = new_job()
        store.enqueue([job])
        written.append(job.id)
        heard.set()

    def disturb() -> None:
        # One after the other: a handler that is interrupted by itself never comes to an end.
        while not stop.is_set():
            heard.clear()
            os.kill(os.getpid(), signal.SIGUSR1)
            heard.wait(10)

    before = signal.signal(signal.SIGUSR1, handler)
    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    try:
        for _ in range(100):
            store.enqueue([new_job()])
    finally:
        stop.set()
        disturbing.join()
        signal.signal(signal.SIGUSR1, before)
    assert written
    assert set(store.states(written)) == set(written)


def test_patience_is_the_same_in_a_thread(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_thread(lambda: store.enqueue([new_job()]))
    monkeypatch.setattr(database, "WRITE_TIMEOUT_SECONDS", 0.3)
    line = os.open(tmp_path / "jobs.db-limpet" / "turn", os.O_RDWR)
    fcntl.flock(line, fcntl.LOCK_EX)
    with pytest.raises(LimpetError, match="another process holds the writer lock"):
        in_thread(lambda: store.enqueue([new_job()]))
    os.close(line)
