"""Opens connections to a database: how they are set, and what is checked before the first use."""

import contextlib
import logging
import os
import time

import apsw

from limpet.domain.clock import Clock
from limpet.domain.errors import StoreError, StoreReadOnly, StoreUnavailable
from limpet.storage.sqlite.boot import Renewals, refuse_foreign
from limpet.storage.sqlite.failures import said
from limpet.storage.sqlite.location import Location, refuse_network
from limpet.storage.sqlite.recover import expire_foreign
from limpet.storage.sqlite.schema import apply, create_or_check, foreign_renewals
from limpet.storage.sqlite.transaction import Transaction

_log = logging.getLogger("limpet.store")

_CACHE_KIB = 65_536
_CHECKPOINT_PAGES = 1_000
# Above this the checkpoint no longer waits for a moment without readers.
_FORCED_PAGES = 16_384
_FORCED_BUSY_MS = 50
_SET_UP_SECONDS = 10.0


class Connections:
    """The writing and the reading connection of one process."""

    def __init__(self, location: Location, clock: Clock, boot: str) -> None:
        self._location = location
        self._clock = clock
        self._boot = boot
        self._writer: apsw.Connection | None = None
        self._reader: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None
        self.wal_pages = 0
        self.forced_checkpoints = 0

    def writer(self) -> apsw.Connection:
        """The writing connection, opened at the first use; call it with the turn in hand."""
        if self._writer is not None and self._replaced():
            _log.warning(
                "%s was removed or replaced while in use; opening the file that is there now",
                self._location.path,
                extra={"action": "store.reopened"},
            )
            self.close()
        if self._writer is None:
            self._writer = self._open(write=True)
        return self._writer

    def reader(self) -> apsw.Connection:
        """The reading connection; for a store that does not exist yet, `StoreUnavailable`."""
        if self._reader is not None and self._replaced():
            self.close()
        if self._reader is None:
            if not os.path.exists(self._location.path):
                raise StoreUnavailable(
                    f"there is no store at {self._location.path}; enqueue a job or run "
                    f"`limpet migrate` to make it, or check the URL."
                )
            self._reader = self._open(write=False)
        return self._reader

    def migrate(self) -> list[str]:
        """Bring the schema up to date, also from a version that is too old for other use."""
        if self._location.in_memory:
            self.writer()
            return []
        self.close()
        connection = self._open(write=True, check=False)
        try:
            with connection:
                applied = apply(connection, self._location, self._clock)
        except apsw.Error as error:
            raise said(error, self._location.path, connection.system_errno) from error
        finally:
            _discard(connection)
        return applied

    def explain(self, error: apsw.Error) -> StoreError:
        """A driver's error as one of ours."""
        number = 0
        for connection in (self._writer, self._reader):
            if connection is not None:
                with contextlib.suppress(apsw.Error):
                    number = number or connection.system_errno
        return said(error, self._location.path, number)

    def close(self, *, tidy: bool = True) -> None:
        """Close both; `tidy=False` leaves the WAL file as it is."""
        for connection in (self._reader, self._writer):
            if connection is None:
                continue
            with contextlib.suppress(apsw.Error):
                if not tidy:
                    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close(True)
        self._reader = self._writer = None

    def _replaced(self) -> bool:
        if self._location.in_memory:
            return False
        try:
            return _identity(self._location.path) != self._file
        except FileNotFoundError:
            return True

    def _open(self, *, write: bool, check: bool = True) -> apsw.Connection:
        path = self._location.path
        if not self._location.in_memory:
            refuse_network(path)
        flags = apsw.SQLITE_OPEN_READWRITE
        if write:
            flags |= apsw.SQLITE_OPEN_CREATE
        elif not os.access(path, os.W_OK):
            flags = apsw.SQLITE_OPEN_READONLY
        connection = None
        try:
            connection = apsw.Connection(path, flags=flags)
            self._set_up(connection, write, check)
        except apsw.Error as error:
            number = connection.system_errno if connection is not None else 0
            told = said(error, path, number)
            _discard(connection)
            raise told from error
        except StoreError:
            _discard(connection)
            raise
        if not self._location.in_memory:
            self._file = _identity(path)
        return connection

    def _set_up(self, connection: apsw.Connection, write: bool, check: bool) -> None:
        # Opening meets others that open, close or checkpoint; they are done in milliseconds.
        give_up = time.monotonic() + _SET_UP_SECONDS
        connection.set_busy_handler(lambda _: time.monotonic() < give_up and _nap())
        connection.pragma("cache_size", -_CACHE_KIB)
        connection.pragma("temp_store", "memory")
        if write:
            if connection.readonly("main"):
                raise StoreReadOnly(
                    f"{self._location.path} can be read but not written by this user. Give it the "
                    f"right to write to the file and its folder."
                )
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
                self._settle_foreign_boots(connection)
        else:
            create_or_check(connection, self._location, self._clock, may_create=False)
            connection.pragma("query_only", True)
        connection.set_busy_handler(None)

    def _count_wal(self, _connection: apsw.Connection, _name: str, pages: int) -> bool:
        self.wal_pages = pages
        return False

    def _settle_foreign_boots(self, connection: apsw.Connection) -> None:
        def read() -> Renewals:
            return foreign_renewals(connection, self._location.namespace, self._boot)

        if refuse_foreign(self._location.path, self._clock, read):
            transaction = Transaction(connection, self._clock, self._boot, self._location.namespace)
            with connection:
                expire_foreign(transaction)
                transaction.flush()


def checkpoint(connection: apsw.Connection, connections: Connections) -> None:
    """Bring the WAL file into the database when it has grown; by force above a size.

    The gentle way never waits, and never finishes while some reader is always there; then the
    file grows without end, so above a size readers are waited for, for a bounded time.
    """
    if connections.wal_pages < _CHECKPOINT_PAGES:
        return
    with contextlib.suppress(apsw.BusyError, apsw.LockedError):
        if connections.wal_pages < _FORCED_PAGES:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        else:
            connection.set_busy_timeout(_FORCED_BUSY_MS)
            try:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                connections.forced_checkpoints += 1
            finally:
                connection.set_busy_timeout(0)
    connections.wal_pages = 0


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _nap() -> bool:
    time.sleep(0.002)
    return True


def _discard(connection: apsw.Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(apsw.Error):
            connection.close(True)
