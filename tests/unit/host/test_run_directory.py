"""The run directory is this user's alone, whatever others have put in its place."""

import contextlib
import fcntl
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.gate.monitor_lock import MonitorLock
from limpet.host import locks, run_directory

OTHER = 4242
IDS = IdSource(SystemClock())
# Another process of this user: makes the locks of a session, ends, and says where they were.
TAKES = """
import os, sys
from limpet.host import locks, run_directory
run_directory.SYSTEM = run_directory._TEMPORARY = sys.argv[1]
sys.stdin.readline()
print(os.path.dirname(locks.take(sys.argv[2]).path))
"""


@pytest.fixture
def sticky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where every user may write, as /tmp; there is no other for run directories."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(run_directory, "SYSTEM", str(tmp_path / "none"))
    monkeypatch.setattr(run_directory, "_TEMPORARY", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return folder


@pytest.fixture
def usual(sticky: Path) -> Path:
    """Where the run directory would be."""
    return sticky / f"limpet-{os.geteuid()}"


def mode(path: Path | str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def aged(path: Path) -> Path:
    os.utime(path, (0, 0), follow_symlinks=False)
    return path


def touched(path: Path) -> Path:
    path.touch()
    return path


def lock_of(folder: Path) -> Path:
    """A file as an old session would have left it."""
    path = folder / f"{IDS.new()}.lock"
    path.write_text("nonce")
    return aged(path)


def beginning(sticky: Path, count: int) -> list[str]:
    """The directories that so many processes use that begin at the same moment."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TAKES, str(sticky / "none"), IDS.new()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(sticky)},
        )
        for _ in range(count)
    ]
    for each in started:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    return [each.communicate()[0].strip() for each in started]


def folder_of_another(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)
    lock_of(path)
    os.chown(path, OTHER, OTHER)


def folder_of_anybody(path: Path) -> None:
    """What another user would let us take for our own."""
    path.symlink_to(path.with_name("own"))


def plain_file(path: Path) -> None:
    path.touch()


PLANTS: list[Callable[[Path], None]] = [folder_of_anybody, plain_file, os.mkfifo]


@pytest.fixture
def own(sticky: Path) -> Path:
    """A folder of this user's, with locks of programs that have nothing to do with us."""
    folder = sticky / "own"
    folder.mkdir()
    lock_of(folder)
    aged(touched(folder / "yarn.lock"))
    return folder


def contents(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# -- whose it is


def test_run_directory_is_private_whatever_the_mask(usual: Path) -> None:
    before = os.umask(0)
    try:
        assert run_directory.run_directory() == str(usual)
    finally:
        os.umask(before)
    assert mode(usual) == 0o700


def test_directory_of_this_user_that_is_too_open_is_closed_and_used(usual: Path) -> None:
    usual.mkdir()
    usual.chmod(0o777)
    assert run_directory.run_directory() == str(usual)
    assert mode(usual) == 0o700


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_what_stands_in_its_place_is_neither_used_nor_tidied(
    sticky: Path, usual: Path, own: Path, plant: Callable[[Path], None]
) -> None:
    before = contents(own)
    plant(usual)
    first, second = locks.take(IDS.new()), locks.take(IDS.new())
    folder = Path(first.path).parent
    assert folder == Path(second.path).parent != usual
    assert folder.parent == sticky
    assert mode(folder) == 0o700
    assert contents(own) == before
    assert len(list(sticky.glob("limpet-*"))) == 2
    for held in (first, second):
        held.let_go()
        assert locks.proves_death(Path(held.path).stem, held.path, held.inode, held.nonce)


@pytest.mark.as_root
def test_directory_of_another_user_is_neither_used_nor_tidied(sticky: Path, usual: Path) -> None:
    folder_of_another(usual)
    before = contents(usual)
    folders = {Path(locks.take(IDS.new()).path).parent for _ in range(3)}
    assert len(folders) == 1
    assert usual not in folders
    assert contents(usual) == before


@pytest.mark.as_root
def test_fallback_that_another_user_made_is_passed_over(sticky: Path, usual: Path) -> None:
    folder_of_another(usual)
    folder_of_another(Path(f"{usual}-00000000"))
    held = locks.take(IDS.new())
    assert Path(held.path).parent.stat().st_uid == os.geteuid()
    assert locks.take(IDS.new()).path.startswith(os.path.dirname(held.path))


def test_processes_that_begin_at_once_use_one_fallback(sticky: Path, usual: Path) -> None:
    plain_file(usual)
    assert len(set(beginning(sticky, 6))) == 1
    assert len(list(sticky.glob("limpet-*"))) == 2


def test_nobody_keeps_a_fallback_from_being_made(
    sticky: Path, usual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user has locked the folder that all share, for ever."""
    monkeypatch.setattr(run_directory, "_AGREE_SECONDS", 0.1)
    plain_file(usual)
    descriptor = os.open(sticky, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        first = run_directory.run_directory()
        assert run_directory.run_directory() == first
    finally:
        os.close(descriptor)


def test_locks_in_a_fallback_are_found_when_the_usual_name_is_free_again(usual: Path) -> None:
    plain_file(usual)
    held = locks.take(session := IDS.new())
    held.let_go()
    usual.unlink()
    assert run_directory.run_directory() == str(usual)
    assert locks.proves_death(session, held.path, held.inode, held.nonce)
    locks.forget(session, held.path)
    assert not os.path.exists(held.path)


def test_locks_are_found_from_where_temporary_files_go_elsewhere(
    sticky: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TMPDIR differs between two processes of one user: the system's folder is known to both."""
    held = locks.take(session := IDS.new())
    held.let_go()
    (tmp_path / "job").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "job"))
    assert locks.proves_death(session, held.path, held.inode, held.nonce)
    monkeypatch.setattr(run_directory, "_TEMPORARY", str(tmp_path / "job"))
    assert not locks.proves_death(session, held.path, held.inode, held.nonce)


# -- what is in it


def test_files_of_locks_are_private_whatever_the_mask(usual: Path) -> None:
    for mask in (0, 0o777):
        before = os.umask(mask)
        try:
            held, post = locks.take(IDS.new()), MonitorLock(f"web-{mask}")
            assert post.is_ours()
        finally:
            os.umask(before)
        held.let_go()
        post.close()
    assert {mode(path) for path in usual.iterdir()} == {0o600}


def test_files_of_an_older_version_still_prove_and_are_closed(usual: Path) -> None:
    held = locks.take(session := IDS.new())
    held.let_go()
    paths = [Path(held.path), Path(f"{held.path}.core")]
    usual.chmod(0o755)
    for path in paths:
        path.chmod(0o644)
    (usual / "web.monitor").touch(0o644)
    post = MonitorLock("web")
    assert post.is_ours()
    assert locks.proves_death(session, held.path, held.inode, held.nonce)
    assert {mode(path) for path in (*paths, usual / "web.monitor")} == {0o600}
    assert mode(usual) == 0o700
    post.close()


@pytest.mark.as_root
def test_other_user_cannot_wait_for_the_lock_of_a_session(sticky: Path, tmp_path: Path) -> None:
    """Who gets it when the worker dies would deny the proof."""
    for folder in (tmp_path, *tmp_path.parents):
        with contextlib.suppress(OSError):
            folder.chmod(mode(folder) | 0o011)
    held = locks.take(IDS.new())
    os.chmod(os.path.dirname(held.path), 0o755)  # even so
    tries = f"import os; os.setuid({OTHER})\nfor path in {held.path!r}, {held.path + '.core'!r}:\n"
    tries += "    try: os.open(path, os.O_RDONLY); print('opened')\n"
    tries += "    except PermissionError: print('refused')\n"
    done = subprocess.run([sys.executable, "-c", tries], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused", "refused"], done
    held.let_go()


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        # The path of one is short, whatever that of the folder is.
        here = os.open(path.parent, os.O_RDONLY)
        try:
            made.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


def _unreadable(path: Path) -> None:
    path.touch(0)


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def _garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


def _link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


HOSTILE = [os.mkfifo, os.mkdir, _socket, _unreadable, _huge, _garbage, _link_to_a_device, _loop]


@pytest.mark.parametrize("plant", HOSTILE, ids=lambda plant: plant.__name__.lstrip("_"))
def test_hostile_file_proves_nothing_and_stops_neither_a_start_nor_a_proof(
    usual: Path, plant: Callable[[Path], None]
) -> None:
    usual.mkdir()
    session = IDS.new()
    path = usual / f"{session}.lock"
    for each in (path, Path(f"{path}.core"), usual / "web.monitor"):
        plant(each)
        aged(each)
    inode = os.lstat(path).st_ino
    started = time.monotonic()
    for nonce in ("nonce", "", "\0", "é"):
        assert not locks.proves_death(session, str(path), inode, nonce or "x")
    assert locks.owners([session, "../../etc/passwd"]) == {}
    held = locks.take(other := IDS.new())  # tidies, too
    held.let_go()
    assert locks.proves_death(other, held.path, held.inode, held.nonce)
    assert time.monotonic() - started < 60


def test_only_old_files_of_sessions_and_monitors_are_tidied(usual: Path, own: Path) -> None:
    usual.mkdir()
    old, monitor = lock_of(usual), aged(touched(usual / "web.monitor"))
    foreign = touched(usual / "yarn.lock")
    linked = usual / f"{IDS.new()}.lock"
    linked.symlink_to(next(own.iterdir()))
    folder = usual / f"{IDS.new()}.lock"
    folder.mkdir()
    for each in (foreign, linked, folder):
        aged(each)
    before = contents(own)
    locks.take(IDS.new()).let_go()
    assert not old.exists()
    assert not monitor.exists()
    assert foreign.exists()
    assert linked.is_symlink()
    assert folder.is_dir()
    assert contents(own) == before


# -- what a store says of them


PIECES = st.sampled_from(
    ["/", "..", ".", "", "limpet", "limpet-0", "tmp", "run", "etc", "dev", "zero", ".lock", ".core"]
)
PATHS = st.text() | st.lists(PIECES).map("/".join) | st.lists(PIECES).map("".join)


@settings(max_examples=100)
@given(
    session=st.sampled_from(["1" * 26, "", "../x", "/etc/passwd", "\0"]) | st.text(max_size=30),
    path=PATHS,
    inode=st.integers(),
    nonce=st.text(),
)
def test_nonsense_of_a_store_proves_nothing_and_raises_nothing(
    session: str, path: str, inode: int, nonce: str
) -> None:
    assert not locks.proves_death(session, path, inode, nonce)
    assert not locks.proves_death(session, f"{path}/{session}.lock", inode, nonce)
    locks.forget(session, path)
