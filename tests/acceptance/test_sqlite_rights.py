"""Whoever may read a SQLite store may write to it, and all others can neither read nor lock it."""

import logging
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from acceptance.place import assert_sound, made, new_job, url_of

from limpet.domain.errors import StoreRefused
from limpet.storage.contract.bell import Topic
from limpet.storage.sqlite import rights
from limpet.storage.sqlite.store import SqliteStore

OTHER = 4242
# umask → the mode of a new store.
MODES = {0o022: 0o600, 0o002: 0o660, 0o000: 0o666, 0o007: 0o660, 0o077: 0o600, 0o027: 0o600}
# Becomes another user, takes every lock that it can get on the files of a store, and keeps them.
LOCKS = """
import fcntl, os, sys
os.setgroups([]); os.setgid(4242); os.setuid(4242)
got = []
for name in sys.argv[1:]:
    try:
        file = os.open(name, os.O_RDONLY)
    except OSError:
        continue
    got.append(name)
    if name.endswith("-shm"):
        fcntl.lockf(file, fcntl.LOCK_SH, 1, 120)
    elif "-limpet/" in name:
        fcntl.flock(file, fcntl.LOCK_EX)
print(len(got), flush=True)
sys.stdin.read()
"""
# Enqueues as another user, and says how that ended.
ENQUEUES = """
import os, sys
from limpet.domain.job import NewJob
from limpet.storage.sqlite.store import SqliteStore
url, job, user, mask = sys.argv[1:]
SqliteStore("sqlite://").enqueue([NewJob("0" * 26, "work", "{}")])
os.umask(int(mask, 8))
os.setgroups([]); os.setgid(int(user)); os.setuid(int(user))
store = SqliteStore(url)
try:
    store.enqueue([NewJob(job, "work", "{}")])
    print("enqueued")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
store.close()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in which every user may do anything."""
    made_at = Path(tempfile.mkdtemp())
    made_at.chmod(0o777)
    yield made_at
    shutil.rmtree(made_at)


@pytest.fixture(autouse=True)
def _nothing_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "_warned", set())


@contextmanager
def mask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode)
        for path in sorted(folder.rglob("*"))
    }


def every_file(store: SqliteStore) -> None:
    """Have all files of the store made: the log, its index, the turns and the bells."""
    store.enqueue([new_job()])
    store.queues()
    for topic in Topic:
        store.listen(topic).close()


@pytest.mark.parametrize("value", MODES, ids=lambda value: f"umask {value:03o}")
def test_new_store_gives_each_class_of_users_both_rights_or_none(folder: Path, value: int) -> None:
    path = folder / "jobs.db"
    with mask(value), closing(SqliteStore(url_of(path))) as store:
        every_file(store)
        found = modes(folder)
    passing = MODES[value] | sum(1 << by for by in (6, 3, 0) if MODES[value] >> by & 0o4)
    assert found.pop("jobs.db-limpet") == passing
    assert {"jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db-limpet/turn"} <= set(found)
    assert set(found.values()) == {MODES[value]}
    assert_sound(path, jobs=1)


def test_listening_before_the_store_is_made_makes_the_same_modes(folder: Path) -> None:
    path = folder / "jobs.db"
    with mask(0o022), closing(SqliteStore(url_of(path))) as store:
        store.listen(Topic.READY).close()
        assert not path.exists()
        every_file(store)
        assert set(modes(folder).values()) == {0o600, 0o700}


def lock_all(folder: Path) -> "subprocess.Popen[str]":
    """Another user has every lock that it can get."""
    files = [str(path) for path in folder.rglob("*") if path.is_file()]
    return subprocess.Popen(
        [sys.executable, "-c", LOCKS, *files],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    )


@pytest.mark.as_root
def test_user_who_owns_nothing_can_stop_no_writer(folder: Path) -> None:
    path = folder / "jobs.db"
    with mask(0o022), closing(SqliteStore(url_of(path))) as store:
        every_file(store)
        other = lock_all(folder)
        assert other.stdout is not None
        opened = other.stdout.readline()
        try:
            writer = subprocess.run(
                [sys.executable, "-c", ENQUEUES, url_of(path), new_job().id, "0", "022"],
                stdout=subprocess.PIPE, text=True, timeout=60, check=False,
            )  # fmt: skip
        finally:
            other.communicate()
    assert writer.stdout == "enqueued\n", f"{opened.strip()} files were opened by another user"
    assert opened == "0\n"
    assert_sound(path, jobs=2)


@pytest.mark.as_root
@pytest.mark.parametrize("first", [0, OTHER], ids=["made by root", "made by a user"])
def test_store_that_all_may_write_is_written_by_two_users(folder: Path, first: int) -> None:
    path = folder / "jobs.db"
    jobs = 0
    others = ((OTHER + 1, "077"), (OTHER, "000"), (0, "077"), (OTHER + 1, "022"))
    for user, value in ((first, "000"), *others):
        done = subprocess.run(
            [sys.executable, "-c", ENQUEUES, url_of(path), new_job().id, str(user), value],
            stdout=subprocess.PIPE, text=True, cwd="/", check=True,
        )  # fmt: skip
        assert done.stdout == "enqueued\n", (user, value, modes(folder))
        jobs += 1
        assert set(modes(folder).values()) <= {0o666, 0o777}
    assert_sound(path, jobs=jobs)


@pytest.mark.as_root
def test_what_root_adds_beside_a_store_belongs_to_its_owner(folder: Path) -> None:
    path = folder / "jobs.db"
    for user, beside in ((OTHER, True), (0, False), (OTHER, True)):
        if not beside:
            shutil.rmtree(f"{path}-limpet")
        done = subprocess.run(
            [sys.executable, "-c", ENQUEUES, url_of(path), new_job().id, str(user), "022"],
            stdout=subprocess.PIPE, text=True, cwd="/", check=True,
        )  # fmt: skip
        assert done.stdout == "enqueued\n", modes(folder)
    assert {each.stat().st_uid for each in folder.rglob("*")} == {OTHER}


def opened_to_readers(path: Path) -> None:
    """As an older version made it under the usual umask."""
    with mask(0o022):
        path.touch(0o644)
        beside = Path(f"{path}-limpet")
        beside.mkdir()
        for name in ("next", "urgent", "turn"):
            (beside / name).touch(0o644)


def test_store_that_others_may_only_read_works_and_is_named_with_the_command(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / "job's.db"
    opened_to_readers(path)
    with caplog.at_level(logging.WARNING, "limpet"):
        for _ in range(2):
            with closing(SqliteStore(url_of(path))) as store:
                every_file(store)
                files = modes(folder)
        (line,) = [each for each in caplog.records if each.__dict__["action"] == "store_half_open"]
    command = line.getMessage().partition("close it to them: ")[2]
    assert command.startswith("chmod -R go-rwx ")
    with closing(SqliteStore(url_of(path))) as store:
        store.enqueue([new_job()])
        subprocess.run(command, shell=True, check=True)
        assert files["job's.db"] == 0o644
        assert all(mode & 0o077 == 0 for mode in modes(folder).values()), modes(folder)
        store.enqueue([new_job()])
    caplog.clear()
    made(path)
    assert [each.getMessage() for each in caplog.records] == []
    assert_sound(path, jobs=5)


def test_closed_database_closes_what_an_older_version_left_beside_it(folder: Path) -> None:
    path = folder / "jobs.db"
    opened_to_readers(path)
    path.chmod(0o600)
    with closing(SqliteStore(url_of(path))) as store:
        every_file(store)
        found = modes(folder)
    del found["jobs.db-limpet"]
    assert set(found.values()) == {0o600}


def test_what_others_put_beside_a_store_holds_up_nobody(folder: Path) -> None:
    path = folder / "jobs.db"
    made(path)
    bell = Path(f"{path}-limpet") / str(Topic.READY)
    bell.unlink(missing_ok=True)
    os.mkfifo(bell)
    made(path)
    bell.unlink()
    bell.symlink_to("/dev/zero")
    made(path)
    assert_sound(path, jobs=3)


@pytest.mark.as_root
@pytest.mark.parametrize("plant", ["folder", "link", "file"])
@pytest.mark.parametrize("first", ["before the store", "after it"])
def test_folder_beside_a_store_that_a_stranger_made_is_refused(
    folder: Path, plant: str, first: str
) -> None:
    """By a lock in it he would stop every writer."""
    path = folder / "jobs.db"
    beside = Path(f"{path}-limpet")
    if first == "after it":
        made(path)
        shutil.rmtree(beside)
    (folder / "elsewhere").mkdir()
    match plant:
        case "folder":
            beside.mkdir()
        case "link":
            beside.symlink_to(folder / "elsewhere")
        case "file":
            beside.touch()
    os.chown(beside, OTHER, OTHER, follow_symlinks=False)
    with (
        mask(0o022),
        closing(SqliteStore(url_of(path))) as store,
        pytest.raises(StoreRefused, match="is in the way"),
    ):
        store.enqueue([new_job()])
    assert list((folder / "elsewhere").iterdir()) == []
    # Where everybody may write to the store, anybody may have made it.
    if plant == "folder":
        with mask(0):
            path.unlink(missing_ok=True)
            with closing(SqliteStore(url_of(path))) as store:
                store.enqueue([new_job()])
        assert_sound(path, jobs=1)
