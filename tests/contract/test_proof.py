"""A session is proved dead by its own locks on its own machine, and by nothing else in its row."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from contract.driver import Holder, session_of
from machine import crowded

from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.session import SessionLock, SessionState
from limpet.host import locks, proofs
from limpet.host.boot import boot_id
from limpet.host.proofs import forget, proof
from limpet.maintenance.sweeper import Sweeper
from limpet.storage.contract.store import Store

# No id of another run: these files are in the run directory of this user.
IDS = IdSource(SystemClock())
ANOTHER_BOOT = "0b00d0b0-0000-4000-8000-000000000000"
PROVED_WITHIN_SECONDS = 5.0


@pytest.fixture
def dead() -> Iterator[locks.HeldLocks]:
    """The locks of a session whose processes are all gone."""
    held = locks.take(IDS.new())
    held.let_go()
    yield held
    held.remove()


def registered(store: Store, lock: SessionLock | None, session: str = "") -> str:
    return Holder(store, session=session or IDS.new(), lock=lock).id


def of(held: locks.HeldLocks) -> SessionLock:
    return SessionLock(held.path, held.inode, held.nonce)


def name_of(held: locks.HeldLocks) -> str:
    return Path(held.path).name.removesuffix(".lock")


def proved(store: Store) -> int | None:
    """What one round of proofs took back; None if it did not come to its end."""
    answers: list[int] = []
    sweeper = Sweeper(store, None, proof, forget=forget)
    thread = threading.Thread(target=lambda: answers.append(sweeper.prove()), daemon=True)
    thread.start()
    thread.join(PROVED_WITHIN_SECONDS * crowded())
    return answers[0] if answers else None


def state(store: Store, session: str) -> SessionState:
    return session_of(store, session).state


def test_row_says_on_which_start_of_which_machine_a_session_registered(store: Store) -> None:
    assert session_of(store, registered(store, None)).boot == boot_id()


def test_free_locks_prove_a_death_on_the_machine_of_the_session(
    store: Store, dead: locks.HeldLocks
) -> None:
    session = registered(store, of(dead), name_of(dead))
    assert proved(store) == 0
    assert state(store, session) is SessionState.DEAD
    assert not os.path.exists(dead.path)


def test_free_locks_on_a_clone_of_the_machine_prove_nothing(
    store: Store, dead: locks.HeldLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same files, by path, inode and nonce, on a machine that was started another time."""
    session = registered(store, of(dead), name_of(dead))
    monkeypatch.setattr(proofs, "boot_id", lambda: ANOTHER_BOOT)
    assert proved(store) == 0
    assert state(store, session) is SessionState.LIVE
    assert os.path.exists(dead.path)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


@pytest.mark.parametrize(
    "plant",
    [_fifo, Path.mkdir, _link_to("/dev/zero"), _link_to("/dev/tty"), lambda path: None],
    ids=["FIFO", "folder", "link to a device", "link to a terminal", "nothing"],
)
def test_what_is_no_lock_proves_nothing_and_stops_no_proof(
    store: Store, dead: locks.HeldLocks, plant: Callable[[Path], None]
) -> None:
    """Beside the other locks, under the names that the row gives."""
    session = IDS.new()
    path = Path(dead.path).with_name(f"{session}.lock")
    core = Path(f"{path}.core")
    try:
        for each in (path, core):
            plant(each)
        registered(store, SessionLock(str(path), 1, ""), session)
        other = registered(store, of(dead), name_of(dead))
        assert proved(store) == 0
        assert state(store, session) is SessionState.LIVE
        assert state(store, other) is SessionState.DEAD
    finally:
        for each in (path, core):
            with suppress(FileNotFoundError):
                each.rmdir() if each.is_dir() and not each.is_symlink() else each.unlink()


def test_files_elsewhere_prove_nothing_and_stay(
    store: Store, dead: locks.HeldLocks, tmp_path: Path
) -> None:
    """A row names files outside of the run directories of this host, and the names of others."""
    session = IDS.new()
    away = tmp_path / f"{session}.lock"
    for each in (away, Path(f"{away}.core")):
        each.write_text("nonce")
    other = IDS.new()  # names the locks of another session as its own
    registered(store, SessionLock(str(away), away.stat().st_ino, "nonce"), session)
    registered(store, of(dead), other)
    assert proved(store) == 0
    assert {state(store, each) for each in (session, other)} == {SessionState.LIVE}
    for found in store.sessions():
        forget(found)
    assert away.exists()
    assert os.path.exists(dead.path)


def test_row_whose_lock_is_nonsense_stops_no_proof(store: Store, dead: locks.HeldLocks) -> None:
    for path in ("", "\0", "/" * 5000, "..", f"{Path(dead.path).parent}/../../etc/passwd"):
        registered(store, SessionLock(path, -1, "x" * 10_000))
    other = registered(store, of(dead), name_of(dead))
    assert proved(store) == 0
    assert state(store, other) is SessionState.DEAD
