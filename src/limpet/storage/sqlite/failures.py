"""Translates errors of the driver and the system into ours, with advice on what to do."""

import errno
import os

import apsw

from limpet.domain.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)


def translate_error(error: apsw.Error, path: str, system_errno: int = 0) -> StoreError:
    """The `StoreError` for an error of SQLite."""
    # On a full disk SQLite undoes the transaction itself. Our rollback then fails too; that is the
    # last error, but not the reason.
    while isinstance(error.__context__, apsw.Error):
        error = error.__context__
    reason = os.strerror(system_errno) if system_errno else str(error)
    match error:
        case apsw.NotADBError():
            return StoreCorrupt(
                f"{path} is not a SQLite database. Name another file, or move this one away."
            )
        case apsw.CorruptError():
            return StoreCorrupt(
                f"{path} is damaged ({error}). Stop its workers, keep a copy, and restore a backup "
                f"or run `limpet fsck`."
            )
        case apsw.FullError():
            return StoreFull(
                f"there is no room left on the disk for {path}; nothing was written. Free some "
                f"space and try again."
            )
        case apsw.IOError() if system_errno in (errno.EFBIG, errno.EDQUOT, errno.ENOSPC):
            return StoreFull(
                f"{path} cannot grow ({reason}); nothing was written. Raise the limit or free some "
                f"space, and try again."
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return read_only(path)
        case apsw.CantOpenError():
            return StoreUnavailable(f"{path} cannot be opened: {why_not(path, reason)}")
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(
                f"another process holds the write lock of {path}; nothing was written. Look for a "
                f"long transaction or a stopped process that has the file open."
            )
        case _:
            return StoreUnavailable(f"{path} cannot be used: {error} ({reason})")


def read_only(path: str) -> StoreReadOnly:
    """The refusal that names the files without write access; -wal and -shm follow the database."""
    files = (path, path + "-wal", path + "-shm", os.path.dirname(path) or ".")
    closed = [file for file in files if os.path.exists(file) and not os.access(file, os.W_OK)]
    return StoreReadOnly(
        f"{path} can be read but not written by this user. Give it the right to write to "
        f"{' and '.join(closed) or 'the file and its folder'}."
    )


def translate_os_error(error: OSError, path: str) -> StoreError:
    """The `StoreError` for an error of the operating system beside the database file."""
    folder = os.path.dirname(path) or "."
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return StoreReadOnly(
                f"cannot write beside the store {path} ({error.strerror}: {error.filename}). Give "
                f"this user the right to write to the folder {folder} and what is in it."
            )
        case errno.EROFS:
            return StoreReadOnly(
                f"{path} is on a read-only file system; mount it writable, or move the store."
            )
        case errno.ENOSPC | errno.EDQUOT:
            return StoreFull(
                f"there is no room left on the disk for {path}; nothing was written. Free some "
                f"space and try again."
            )
        case _:
            return StoreUnavailable(
                f"{path} cannot be opened: {why_not(path, error.strerror or str(error))}"
            )


def why_not(path: str, reason: str) -> str:
    """Why a file cannot be opened, and what to do about it."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        return "it is a folder; name a file in it."
    if not os.path.isdir(folder):
        return f"the folder {folder} does not exist; make it first."
    if not os.access(folder, os.W_OK):
        return f"this user may not write to the folder {folder}."
    return f"{reason}."
