"""What others do to a store while it is in use: other boots, replaced files, stopped writers."""

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import apsw
import pytest
from acceptance.place import assert_sound, assert_told, made, new_job, new_session, url_of

from limpet.domain.cause import HostRebooted
from limpet.domain.clock import SystemClock
from limpet.domain.errors import StoreBusy, StoreRefused, StoreUnavailable
from limpet.domain.session import SessionState, Standing
from limpet.domain.state import State
from limpet.storage.contract.store import ANY_QUEUE, Pool, Want
from limpet.storage.sqlite import connection, database
from limpet.storage.sqlite import connection as connections
from limpet.storage.sqlite.store import SqliteStore

SHORT = timedelta(seconds=1)
# Pauses a queue, and stops itself in the middle of that transaction.
STOPS = """
import os, signal, sys
from limpet.storage.sqlite.store import SqliteStore
from limpet.storage.sqlite.transaction import Transaction
store = SqliteStore(sys.argv[1])
store.pause("default", False)
flush = Transaction.flush
def stop(self):
    os.kill(os.getpid(), signal.SIGSTOP)
    flush(self)
Transaction.flush = stop
store.pause("default", True)
store.close()
"""


class SteppedClock(SystemClock):
    """A wall clock that an operator steps; and a machine that may have started just now."""

    step = 0
    started_ago: int | None = None

    def wall(self) -> int:
        return super().wall() + self.step

    def boot(self) -> int:
        return super().boot() if self.started_ago is None else self.started_ago


# -- restarts and other machines


def test_a_file_that_another_boot_is_still_renewing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    session = new_session(SHORT)
    over = threading.Event()

    def renew() -> None:
        while not over.wait(0.05):
            assert first.renew(session.id).standing is Standing.LIVE

    with (
        closing(SqliteStore(url_of(path), boot="one")) as first,
        closing(SqliteStore(url_of(path), boot="two")) as second,
    ):
        first.register(session)
        heart = threading.Thread(target=renew)
        heart.start()
        with pytest.raises(StoreRefused) as caught:
            second.enqueue([new_job()])
        assert_told(caught.value, "another machine", session.id, "Give each machine its own")
        over.set()
        heart.join()
        assert first.renew(session.id).standing is Standing.LIVE
        assert first.queues() == ()
        assert first.invariants() == ()


def test_sessions_of_another_boot_that_do_not_renew_are_ended(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    session = new_session(SHORT)
    with closing(SqliteStore(url_of(path), boot="one")) as first:
        first.register(session)
    with closing(SqliteStore(url_of(path), boot="two")) as second:
        before = time.monotonic()
        second.enqueue([new_job()])
        assert time.monotonic() - before >= SHORT.total_seconds()
        (ended,) = second.sessions(with_dead=True)
    assert ended.state is SessionState.DEAD
    assert ended.cause == HostRebooted(boot="one")
    assert_sound(path, jobs=1)


def test_a_restart_ends_all_sessions_at_once_and_their_jobs_are_recovered(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    sessions = [new_session(timedelta(hours=1)) for _ in range(3)]
    with closing(SqliteStore(url_of(path), boot="one")) as store:
        store.enqueue([new_job() for _ in range(3)])
        for session in sessions:
            tasks = store.register(session).tasks
            want = Want((Pool(tasks, {ANY_QUEUE: 1}, 1),))
            assert len(store.exchange(session.id, 1, (), want).claimed) == 1
    clock = SteppedClock()
    clock.step, clock.started_ago = 600_000_000, 60_000_000
    with closing(SqliteStore(url_of(path), clock, boot="two")) as store:
        dead = store.expire()
        assert {each.id for each in dead} == {session.id for session in sessions}
        assert all(isinstance(each.cause, HostRebooted) for each in dead)
        assert sum(store.recover(each.id).ready for each in dead) == 3
    assert_sound(path, jobs=3)


@pytest.mark.parametrize("step", [-86_400_000_000, 86_400_000_000])
def test_a_step_of_the_wall_clock_ends_no_session(tmp_path: Path, step: int) -> None:
    path = tmp_path / "jobs.db"
    clock = SteppedClock()
    session = new_session()
    with closing(SqliteStore(url_of(path), clock)) as store:
        store.register(session)
        clock.step = step
        assert store.expire() == ()
        assert store.renew(session.id).standing is Standing.LIVE
    with closing(SqliteStore(url_of(path), clock)) as store:
        assert store.expire() == ()
        assert store.renew(session.id).standing is Standing.LIVE
    assert_sound(path, jobs=0)


# -- the file goes away


def test_a_file_that_is_deleted_while_in_use_is_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "jobs.db"
    with closing(SqliteStore(url_of(path))) as store:
        store.enqueue([new_job() for _ in range(5)])
        assert len(store.queues()) == 1
        path.unlink()
        with pytest.raises(StoreUnavailable) as caught:
            store.queues()
        assert_told(caught.value, str(path), "check the URL")
        with caplog.at_level(logging.WARNING, "limpet.store"):
            store.enqueue([new_job()])
        assert "removed or replaced" in caplog.text
        assert store.invariants() == ()
    assert_sound(path, jobs=1)


def test_a_file_that_is_replaced_while_in_use_is_not_mixed_with_the_old_one(tmp_path: Path) -> None:
    path, backup = tmp_path / "jobs.db", tmp_path / "backup.db"
    restored = made(backup)
    with closing(SqliteStore(url_of(path))) as store:
        old = [new_job("x" * 5_000) for _ in range(50)]
        store.enqueue(old)
        assert store.states([old[0].id])
        os.replace(backup, path)
        fresh = new_job()
        store.enqueue([fresh])
        assert store.states([old[0].id, restored, fresh.id]).keys() == {restored, fresh.id}
        assert store.invariants() == ()
    assert_sound(path, jobs=2)


def test_a_file_that_is_moved_while_in_use_takes_what_was_acknowledged_along(
    tmp_path: Path,
) -> None:
    path, moved = tmp_path / "jobs.db", tmp_path / "moved.db"
    with closing(SqliteStore(url_of(path))) as store:
        store.enqueue([new_job() for _ in range(50)])
        path.rename(moved)
        store.enqueue([new_job()])
    assert_sound(path, jobs=1)
    assert_sound(moved, jobs=50)


def test_a_store_goes_on_when_the_folder_of_its_turns_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    made(path)
    shutil.rmtree(f"{path}-limpet")
    assert_sound(path, jobs=1)


# -- others that hold on


def test_a_stopped_process_makes_others_busy_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.db"
    made(path)
    with closing(SqliteStore(url_of(path))) as store:
        store.enqueue([new_job()])
        child = subprocess.Popen([sys.executable, "-c", STOPS, url_of(path)])
        try:
            _, status = os.waitpid(child.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            monkeypatch.setattr(database, "WRITE_TIMEOUT_SECONDS", 0.3)
            refused = new_job()
            with pytest.raises(StoreBusy) as caught:
                store.enqueue([refused])
            assert_told(caught.value, "nothing was written", "Look for a stopped process")
            assert len(store.queues()) == 1  # reading waits for nobody
            other = SqliteStore(url_of(path))
            with pytest.raises(StoreBusy):
                other.renew("nobody")
            other.close()  # nor does closing
            monkeypatch.undo()
        finally:
            child.send_signal(signal.SIGCONT)
            assert child.wait() == 0
        assert store.queues()[0].paused
        assert store.enqueue([new_job()])[0].outcome == "new"
        assert store.states([refused.id]) == {}
    assert_sound(path, jobs=3)


def test_a_user_s_transaction_makes_writers_wait_and_then_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.db"
    made(path)
    with closing(SqliteStore(url_of(path))) as store, closing(apsw.Connection(str(path))) as user:
        user.execute("BEGIN IMMEDIATE")
        with monkeypatch.context() as patch:
            patch.setattr(connection, "_BEGIN_SECONDS", 0.2)
            with pytest.raises(StoreBusy) as caught:
                store.enqueue([new_job()])
            assert_told(caught.value, "nothing was written", "long transaction")
        waiting = threading.Thread(target=store.enqueue, args=([new_job()],))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        user.execute("COMMIT")
        waiting.join()
    assert_sound(path, jobs=2)


def test_a_reader_that_never_ends_does_not_stop_writers_and_the_log_shrinks_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, log = tmp_path / "jobs.db", tmp_path / "jobs.db-wal"
    monkeypatch.setattr(connections, "_CHECKPOINT_PAGES", 20)
    monkeypatch.setattr(connections, "_FORCED_PAGES", 100)
    monkeypatch.setattr(connections, "_FORCED_EVERY_SECONDS", 0.2)
    made(path)
    with closing(SqliteStore(url_of(path))) as store, closing(apsw.Connection(str(path))) as user:
        user.execute("BEGIN")
        assert user.execute("SELECT count(*) FROM limpet_job").get == 1
        began = time.monotonic()
        for _ in range(100):
            store.enqueue([new_job("x" * 20_000)])
        seconds = time.monotonic() - began
        assert log.stat().st_size > 400 * 4096  # it cannot shrink while it is read
        assert user.execute("SELECT count(*) FROM limpet_job").get == 1
        tried = store._db._connections.forced_checkpoints
        # Each try waits 50 ms for readers; so they must be few, and writing goes on between.
        assert 1 <= tried <= seconds / 0.2 + 1
        user.execute("ROLLBACK")
        time.sleep(0.25)
        store.enqueue([new_job()])
        store.enqueue([new_job()])  # when this is answered, the checkpoint after the first is done
        assert log.stat().st_size <= 100 * 4096
        assert store.queues()[0].counts[State.READY] == 103
    assert_sound(path, jobs=103)
