"""Opens the connections to a database: their settings, and the checks before the first use."""

import contextlib
import logging
import os
import random
import time
from collections.abc import Iterator
from typing import TypeAlias

import apsw

from limpet.domain.clock import Clock
from limpet.domain.errors import StoreError, StoreRefused, StoreUnavailable
from limpet.storage.sqlite.boot import ForeignSessions, Renewals, from_before_restart
from limpet.storage.sqlite.failures import read_only, translate_error
from limpet.storage.sqlite.late_sync import LateSync
from limpet.storage.sqlite.location import Location, refuse_network
from limpet.storage.sqlite.recover import expire_foreign
from limpet.storage.sqlite.rights import look_after, make_database
from limpet.storage.sqlite.schema import apply, create_or_check, foreign_renewals, writing
from limpet.storage.sqlite.transaction import Transaction

_log = logging.getLogger("limpet.store")

_CACHE_KIB = 65_536
_CHECKPOINT_PAGES = 1_000
# Above this size, a checkpoint waits for readers, instead of leaving what they still use.
_FORCED_PAGES = 16_384
_FORCED_BUSY_MS = 50
_FORCED_EVERY_SECONDS = 1.0
_SET_UP_SECONDS = 10.0
# How long an attempt to begin waits for a writer that does not use the writer lock.
_BEGIN_SECONDS = 10.0
_OLDEST_SQLITE = (3, 51, 3)

# The identity of a file: device and inode, or None if there is no file.
_Identity: TypeAlias = tuple[int, int] | None


class Connections:
    """The writing and the reading connection of one process."""

    def __init__(self, location: Location, clock: Clock, boot: str) -> None:
        self._location = location
        self._clock = clock
        self._boot = boot
        self._writer: apsw.Connection | None = None
        self._reader: apsw.Connection | None = None
        self._files: dict[apsw.Connection, _Identity] = {}
        self._log_file: _Identity = None
        self._late_sync = LateSync(location.path)
        self._foreign_settled = False
        self.wal_pages = 0
        self.pages_at_checkpoint = 0
        self.next_forced = 0.0
        self.forced_checkpoints = 0

    def writer(self) -> apsw.Connection:
        """The writing connection, opened at the first use; the caller holds the writer lock."""
        if self._writer is not None and self._replaced(self._writer):
            _log.warning(
                "%s was removed or replaced while in use; opening the file that is there now",
                self._location.path,
                extra={"action": "store.reopened"},
            )
            self._leave_replaced(self._writer)
            self._writer = None
        if self._writer is None:
            self._foreign_settled = False
            self.wal_pages = self.pages_at_checkpoint = 0
            self._writer = self._open(write=True)
            self._log_file = _identity(self._location.path + "-wal")
        return self._writer

    def reader(self) -> apsw.Connection:
        """The reading connection; raises `StoreUnavailable` if the store does not exist yet."""
        if self._reader is not None and self._replaced(self._reader):
            self._close(self._reader)  # not the writing connection, which another thread uses
            self._reader = None
        if self._reader is None:
            if not os.path.exists(self._location.path):
                raise StoreUnavailable(
                    f"there is no store at {self._location.path}; enqueue a job or run "
                    f"`limpet migrate` to make it, or check the URL."
                )
            self._reader = self._open(write=False)
        return self._reader

    def migrate(self) -> list[str]:
        """Bring the schema up to date, even from a version that is too old for other use."""
        if self._location.in_memory:
            self.writer()
            return []
        self.close()
        connection = self._open(write=True, check=False)
        try:
            with writing(connection):
                applied = apply(connection, self._location, self._clock)
        except apsw.Error as error:
            raise translate_error(error, self._location.path, connection.system_errno) from error
        finally:
            self._close(connection)
        return applied

    def explain(self, error: apsw.Error) -> StoreError:
        """The `StoreError` for an error of the driver."""
        number = 0
        for connection in (self._writer, self._reader):
            if connection is not None:
                with contextlib.suppress(apsw.Error):
                    number = number or connection.system_errno
        return translate_error(error, self._location.path, number)

    def undo(self, connection: apsw.Connection) -> None:
        """Roll back; if even that fails, close the connection, so that the next verb reopens it."""
        with contextlib.suppress(apsw.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if connection.in_transaction:
            self._close(connection)
            self._writer = None

    @contextlib.contextmanager
    def synced_later(self) -> Iterator[None]:
        """Let the writing connection commit without waiting for the disk; the sync follows soon."""
        connection = self.writer()
        connection.pragma("synchronous", "normal")
        try:
            yield
        finally:
            try:
                connection.pragma("synchronous", self._location.synchronous)
            except apsw.Error:
                # Without this setting the connection would not sync the commits of other verbs.
                self._close(connection)
                if self._writer is connection:
                    self._writer = None
            self._late_sync.request()

    def close(self, *, tidy: bool = True) -> None:
        """Close both; `tidy=False` leaves the WAL file as it is."""
        for connection in (self._reader, self._writer):
            if connection is not None:
                self._close(connection, tidy=tidy)
        self._reader = self._writer = None

    def _close(self, connection: apsw.Connection, *, tidy: bool = True) -> None:
        self._files.pop(connection, None)
        with contextlib.suppress(apsw.Error):
            if not tidy:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.close(True)

    def _replaced(self, connection: apsw.Connection) -> bool:
        if self._location.in_memory:
            return False
        return _identity(self._location.path) != self._files[connection]

    def _leave_replaced(self, connection: apsw.Connection) -> None:
        """Write the log back to the file that it belongs to, wherever that is now, and remove it.

        SQLite finds a log by its name: a log that stayed would be read into the file that has
        replaced the old one, and damage it.
        """
        log = self._location.path + "-wal"
        stale = self._log_file is not None and _identity(log) == self._log_file
        with contextlib.suppress(apsw.Error):
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._close(connection, tidy=False)
        if stale:
            for name in (log, self._location.path + "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)

    @staticmethod
    def _refuse_old_sqlite() -> None:
        version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
        if version < _OLDEST_SQLITE:
            raise StoreRefused(
                f"apsw was built with SQLite {apsw.sqlite_lib_version()}, which could damage a "
                f"file that several processes write. Install apsw's own wheel: pip install "
                f"--force-reinstall --only-binary=:all: 'apsw>=3.51.3'."
            )

    def _open(self, *, write: bool, check: bool = True) -> apsw.Connection:
        self._refuse_old_sqlite()
        path = self._location.path
        if not self._location.in_memory:
            refuse_network(path)
        flags = apsw.SQLITE_OPEN_READWRITE
        if write:
            flags |= apsw.SQLITE_OPEN_CREATE
            if not self._location.in_memory:
                make_database(path)
        elif not os.access(path, os.W_OK):
            flags = apsw.SQLITE_OPEN_READONLY
        connection = None
        try:
            connection = apsw.Connection(path, flags=flags)
            self._set_up(connection, write, check)
        except apsw.Error as error:
            number = connection.system_errno if connection is not None else 0
            translated = translate_error(error, path, number)
            _discard(connection)
            raise translated from error
        except StoreError:
            _discard(connection)
            raise
        self._files[connection] = _identity(path)
        if not self._location.in_memory:
            look_after(path)
        return connection

    def _set_up(self, connection: apsw.Connection, write: bool, check: bool) -> None:
        # Other processes may be opening, closing or checkpointing; they finish in milliseconds.
        give_up = time.monotonic() + _SET_UP_SECONDS
        connection.set_busy_handler(lambda _: time.monotonic() < give_up and _nap())
        connection.pragma("cache_size", -_CACHE_KIB)
        connection.pragma("temp_store", "memory")
        # Without this, SQLite plans a statement anew when a bound value changes: 60 µs each time.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        if write:
            if connection.readonly("main"):
                raise read_only(self._location.path)
            if connection.pragma("journal_mode") != "wal" and not self._location.in_memory:
                mode = connection.pragma("journal_mode", "wal")
                if mode != "wal":
                    raise StoreUnavailable(
                        f"{self._location.path} cannot use SQLite's write-ahead log (it stays in "
                        f"{mode} mode); put it on an ordinary local file system."
                    )
            connection.pragma("synchronous", self._location.synchronous)
            connection.pragma("journal_size_limit", _FORCED_PAGES * 4096)
            connection.set_wal_hook(self._count_wal)
            if check:
                create_or_check(connection, self._location, self._clock, may_create=True)
        else:
            create_or_check(connection, self._location, self._clock, may_create=False)
            connection.pragma("query_only", True)
        connection.set_busy_handler(None)

    def _count_wal(self, _connection: apsw.Connection, _name: str, pages: int) -> bool:
        self.wal_pages = pages
        return False

    def checkpoint_is_due(self) -> bool:
        """Whether the WAL file has grown enough since the last checkpoint."""
        if self.wal_pages < self.pages_at_checkpoint:
            self.pages_at_checkpoint = 0  # the log began anew
        return self.wal_pages - self.pages_at_checkpoint >= _CHECKPOINT_PAGES or self.must_force()

    def must_force(self) -> bool:
        """Whether the WAL file is so large that the checkpoint must wait for readers."""
        return self.wal_pages >= _FORCED_PAGES and time.monotonic() >= self.next_forced

    def foreign(self) -> Renewals:
        """The sessions of other boots that nobody has marked dead."""
        return foreign_renewals(self.writer(), self._location.namespace, self._boot)

    def look_for_foreign_again(self) -> None:
        """Let the next `settle_foreign` look again, even if the last one found none."""
        self._foreign_settled = False

    def settle_foreign(self, watched: Renewals) -> None:
        """Mark the sessions of an earlier boot dead, once after opening. The caller holds the
        writer lock.

        Raises `ForeignSessions` for sessions that may be alive: neither older than this machine's
        start, nor watched for one lease without a sign of life.
        """
        if self._foreign_settled:
            return
        found = self.foreign()
        if found:
            if not (
                found.items() <= watched.items()
                or from_before_restart(self._location.path, self._clock, found)
            ):
                raise ForeignSessions(found)
            connection = self.writer()
            transaction = Transaction(connection, self._clock, self._boot, self._location.namespace)
            with writing(connection):
                expire_foreign(transaction)
                transaction.flush()
        self._foreign_settled = True


def begin(connection: apsw.Connection) -> None:
    """Begin a write transaction; the caller holds the writer lock."""
    # Only writers without the writer lock can be in the way: another program, or a user's own
    # transaction with `within=`. SQLite's own waiting is unfair; short random pauses are not.
    give_up = time.monotonic() + _BEGIN_SECONDS
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except apsw.BusyError:
            if time.monotonic() > give_up:
                raise
            time.sleep(random.uniform(0.0005, 0.003))


def checkpoint(connection: apsw.Connection, connections: Connections) -> None:
    """Write the WAL file back to the database; above a size, by force.

    A passive checkpoint never waits, and never finishes while there is always some reader; then the
    WAL file would grow without end. So above a size the checkpoint waits for readers, for a bounded
    time and not too often. Commits are safe in the log, so a failed checkpoint is no error for any
    caller: if the disk is full or broken, the next commit reports it.
    """
    pages = connections.wal_pages
    connections.pages_at_checkpoint = pages
    with contextlib.suppress(apsw.Error):
        if not connections.must_force():
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            return
        connections.next_forced = time.monotonic() + _FORCED_EVERY_SECONDS
        connections.forced_checkpoints += 1
        connection.set_busy_timeout(_FORCED_BUSY_MS)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            connection.set_busy_timeout(0)


def _identity(path: str) -> _Identity:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _nap() -> bool:
    time.sleep(0.002)
    return True


def _discard(connection: apsw.Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(apsw.Error):
            connection.close(True)
