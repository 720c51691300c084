"""What is wrong with a store is said in one sentence; nothing is half-written."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from acceptance.place import IDS, assert_sound, assert_told, made, new_job, url_of

from limpet.domain.errors import (
    SchemaMismatch,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from limpet.storage.contract.bell import Topic
from limpet.storage.sqlite.location import refuse_network
from limpet.storage.sqlite.store import SqliteStore

NOBODY = 65534
# Enqueues on the store named by its arguments, as that user and with that limit on the size of
# files, and says how it ended. What it needs is loaded before it becomes a user who may not.
CHILD = """
import os, resource, sys
from limpet.domain.job import NewJob
from limpet.storage.sqlite.store import SqliteStore
url, job, size, limit, user = sys.argv[1:]
new = NewJob(job, "work", '"' + "x" * int(size) + '"')
SqliteStore("sqlite://").enqueue([new])
if int(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
if int(user):
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
store = SqliteStore(url)
try:
    store.enqueue([new])
    print("enqueued")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
store.close()
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder into which every user may write."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


def in_a_process(path: Path, *, size: int = 1, limit: int = 0, nobody: bool = False) -> str:
    """Enqueue from another process; the answer is how it ended."""
    user = NOBODY if nobody and os.getuid() == 0 else 0
    done = subprocess.run(
        [sys.executable, "-c", CHILD, url_of(path), IDS.new(), str(size), str(limit), str(user)],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        cwd="/",
    )
    return done.stdout.strip()


# -- a place where no store can be


def test_a_missing_folder_is_named_and_not_made(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "jobs.db"
    with closing(SqliteStore(url_of(path))) as store:
        with pytest.raises(StoreUnavailable) as caught:
            store.enqueue([new_job()])
        assert_told(caught.value, str(path.parent), "make it first")
        with pytest.raises(StoreUnavailable):
            store.listen(Topic.READY)
        with pytest.raises(StoreUnavailable):
            store.migrate()
        with pytest.raises(StoreUnavailable):
            store.queues()
    assert list(tmp_path.iterdir()) == []
    path.parent.mkdir()
    made(path)
    assert_sound(path, jobs=1)


def test_a_folder_is_not_taken_for_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    with closing(SqliteStore(url_of(folder))) as store, pytest.raises(StoreUnavailable) as caught:
        store.enqueue([new_job()])
    assert_told(caught.value, str(folder), "name a file in it")
    assert list(tmp_path.iterdir()) == [folder]


def test_a_file_that_is_not_a_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 100)
    with closing(SqliteStore(url_of(path))) as store:
        for verb in (lambda: store.enqueue([new_job()]), store.queues, store.migrate):
            with pytest.raises(StoreCorrupt) as caught:
                verb()
            assert_told(caught.value, "not a SQLite database", "Name another file")
    assert path.read_text() == "not a database\n" * 100


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch()
    made(path)
    assert_sound(path, jobs=1)


def test_a_network_file_system_is_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 254:1 / / rw,relatime - ext4 /dev/root rw\n"
        "40 22 0:35 / /srv/shared\\040files rw,relatime shared:1 - nfs4 server:/export rw\n"
        "42 22 0:36 / /srv/müll rw,relatime shared:2 - nfs4 server:/export rw\n"
        "41 40 254:2 / /srv/shared\\040files/local rw,relatime - ext4 /dev/vdb rw\n"
    )
    with pytest.raises(StoreRefused) as caught:
        refuse_network("/srv/shared files/jobs.db", mounts)
    assert_told(caught.value, "nfs4", "Use a local disk")
    with pytest.raises(StoreRefused):
        refuse_network("/srv/müll/jobs.db", mounts)
    refuse_network("/srv/jobs.db", mounts)
    refuse_network("/srv/shared files/local/jobs.db", mounts)


# -- a place where nothing can be written


def test_a_read_only_file_is_said_to_be_one(open_folder: Path) -> None:
    path = open_folder / "jobs.db"
    made(path)
    for each in (path, *open_folder.glob("jobs.db-limpet/*")):
        each.chmod(0o666)
    path.chmod(0o444)
    (open_folder / "jobs.db-limpet").chmod(0o777)
    told = in_a_process(path, nobody=True)
    assert told.startswith("StoreReadOnly: "), told
    assert_told(StoreError(told), "can be read but not written", f"right to write to {path}")
    # SQLite makes its log as read-only as the file, so whoever opens the file opens that too.
    for each in open_folder.glob("jobs.db*"):
        if each.is_file():
            each.chmod(0o644)
    assert_sound(path, jobs=1)


def test_a_read_only_folder_is_said_to_be_one(open_folder: Path) -> None:
    path = open_folder / "jobs.db"
    made(path)
    shutil.rmtree(f"{path}-limpet")
    path.chmod(0o666)
    open_folder.chmod(0o555)
    told = in_a_process(path, nobody=True)
    assert told.startswith("StoreReadOnly: "), told
    assert_told(StoreError(told), str(open_folder), "Give this user the right")
    open_folder.chmod(0o777)
    assert_sound(path, jobs=1)


def test_a_store_cannot_be_made_in_a_read_only_folder(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    told = in_a_process(open_folder / "jobs.db", nobody=True)
    assert told.startswith("StoreReadOnly: "), told
    assert list(open_folder.iterdir()) == []


# -- no room


@pytest.mark.parametrize("limit", [100_000, 1_000_000])
def test_a_file_that_may_not_grow_is_said_to_be_full(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "jobs.db"
    assert in_a_process(path) == "enqueued"
    told = in_a_process(path, size=2 * limit, limit=limit)
    assert told.startswith("StoreFull: "), told
    assert_told(StoreError(told), "nothing was written", "try again")
    assert_sound(path, jobs=1)


def test_a_store_that_may_not_even_be_made_is_said_to_be_full(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    told = in_a_process(path, limit=8_192)
    assert told.startswith("StoreFull: "), told
    assert in_a_process(path) == "enqueued"
    assert_sound(path, jobs=1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk is not permitted here; RLIMIT_FSIZE is tested instead")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_loses_nothing_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    path = small_disk / "jobs.db"
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 3_000_000)
    kept = []
    with closing(SqliteStore(url_of(path))) as store:
        told = None
        while told is None:
            job = new_job("x" * 30_000)
            try:
                store.enqueue([job])
                kept.append(job.id)
            except StoreFull as error:
                told = error
        assert_told(told, "no room left", "Free some space")
        assert kept
        assert store.states([*kept, job.id]).keys() == set(kept)
        with pytest.raises(StoreFull):
            store.enqueue([new_job("x" * 100_000)])
        ballast.unlink()
        store.enqueue([new_job("x" * 30_000)])
        assert store.invariants() == ()
    assert_sound(path, jobs=len(kept) + 1)


def test_a_disk_that_is_full_from_the_start_is_said_to_be_full(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    path = small_disk / "jobs.db"
    with closing(SqliteStore(url_of(path))) as store:
        with pytest.raises(StoreFull) as caught:
            store.enqueue([new_job()])
        assert_told(caught.value, "try again")
        ballast.unlink()
        store.enqueue([new_job()])
    assert_sound(path, jobs=1)


# -- another version


@pytest.mark.parametrize(
    ("version", "words"),
    [(99, ("newer Limpet", "Upgrade Limpet")), (0, ("older Limpet", "limpet migrate"))],
)
def test_a_store_of_another_version_is_left_alone(
    tmp_path: Path, version: int, words: tuple[str, ...]
) -> None:
    path = tmp_path / "jobs.db"
    made(path)
    before = _stamp(path, version, version)
    for verb in (SqliteStore.queues, SqliteStore.promote):
        with closing(SqliteStore(url_of(path))) as store:
            with pytest.raises(SchemaMismatch) as caught:
                verb(store)
            assert_told(caught.value, *words)
    _stamp(path, *before)
    assert_sound(path, jobs=1)


def test_a_newer_store_that_allows_this_version_is_used(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    made(path)
    _stamp(path, 1, 99)
    assert_sound(path, jobs=1)


def _stamp(path: Path, oldest: int, newest: int) -> tuple[int, int]:
    """Write which versions may work on the file; the answer is what was there."""
    with closing(apsw.Connection(str(path))) as raw:
        before = raw.execute("SELECT oldest_allowed, newest_allowed FROM limpet_store").get
        raw.execute(
            "UPDATE limpet_store SET oldest_allowed = ?, newest_allowed = ?, version = ?",
            (oldest, newest, newest),
        )
    return before[0], before[1]
