"""The session's locks: proof on one host that every process of a session is dead.

Each session has two files, locked with `flock` through descriptors that its processes inherit. The
first lock is free only when the last process of the session is gone, executors included. The second
is held by guardian and supervisor alone: once it is free, nobody is left to end the other
processes, so whoever finds it free ends them. Process ids prove nothing (they are reused, and
hidden by namespaces), and neither does a missing file.

What the store has of a lock is not trusted: a file is opened only under the session's own name in a
run directory of this host, without following links or waiting, and proves something only if it is a
regular file of that directory's owner. Standard library only, because the guardian imports it.
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterable
from typing import NamedTuple

from limpet.domain.ids import is_id
from limpet.host import marks, run_directory

_LOCK, _CORE = ".lock", ".core"
# Suffix of the file whose lock elects the monitor of a host.
MONITOR = ".monitor"
_OURS = re.compile(r"([0-7][0-9a-v]{25})\.lock(\.core)?|[\w.:-]+\.monitor", re.ASCII)
_OLD_SECONDS = 24 * 3600.0
_PRIVATE = 0o600
# Open no link, do not wait in open(), and do not make a terminal the controlling one.
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAKE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class HeldLocks(NamedTuple):
    """The locks of a living session, as its guardian made them."""

    path: str
    inode: int
    nonce: str
    whole: int
    core: int

    def let_go(self) -> None:
        """Close this process's descriptors; the lock is free once all its holders did."""
        os.close(self.whole)
        os.close(self.core)

    def remove(self) -> None:
        """Delete the files of a session that ended normally."""
        forget(os.path.basename(self.path).removesuffix(_LOCK), self.path)


def take(session: str) -> HeldLocks:
    """Make and lock the files of a new session."""
    with run_directory.opened_own() as (folder, directory):
        _tidy(directory)
        name = session + _LOCK
        path = os.path.join(folder, name)
        nonce = os.urandom(8).hex()
        whole = _make(directory, name, nonce, path)
        try:
            core = _make(directory, name + _CORE, nonce, path + _CORE)
        except OSError:
            os.close(whole)
            os.unlink(name, dir_fd=directory)
            raise
    return HeldLocks(path, os.fstat(whole).st_ino, nonce, whole, core)


def _make(directory: int, name: str, nonce: str, path: str) -> int:
    try:
        descriptor = os.open(name, _MAKE | os.O_EXCL, _PRIVATE, dir_fd=directory)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    try:
        os.fchmod(descriptor, _PRIVATE)  # whatever the umask
        os.write(descriptor, nonce.encode())
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        os.unlink(name, dir_fd=directory)
        raise OSError(error.errno, error.strerror, path) from error
    return descriptor


def open_monitor(name: str) -> tuple[str, int]:
    """Open the file whose lock elects the monitor of a host: its path, and a descriptor."""
    if not _OURS.fullmatch(name + MONITOR):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
    with run_directory.opened_own() as (folder, directory):
        descriptor = os.open(name + MONITOR, _MAKE, _PRIVATE, dir_fd=directory)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), name + MONITOR)
        run_directory.close_to_others(descriptor, _PRIVATE)
    except OSError:
        os.close(descriptor)
        raise
    return os.path.join(folder, name + MONITOR), descriptor


def _tidy(directory: int) -> None:
    """Remove old files of sessions and monitors whose store no worker serves any more.

    The files are older than any lease, so nobody still needs them as a proof of death.
    """
    for name in os.listdir(directory):
        if not _OURS.fullmatch(name):
            continue
        with contextlib.suppress(OSError):
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode) or time.time() - found.st_mtime <= _OLD_SECONDS:
                continue
            descriptor = os.open(name, _LOOK, dir_fd=directory)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=directory)
            finally:
                os.close(descriptor)


def owners(sessions: Iterable[str], root: str = "/") -> dict[str, int]:
    """Session → the process that took its lock, for live sessions that can be seen here."""
    found: dict[str, str] = {}
    with run_directory.opened_own() as (_, directory):
        for session in filter(is_id, sessions):
            with contextlib.suppress(OSError):
                about = os.stat(session + _LOCK, dir_fd=directory, follow_symlinks=False)
                device = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}"
                found[f"{device}:{about.st_ino}"] = session
    if not found:
        return {}
    try:
        with open(os.path.join(root, "proc/locks"), encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:
        return {}
    # A line is "7: FLOCK ADVISORY WRITE", the process, the file, the range.
    return {
        found[line[5]]: int(line[4])
        for line in lines
        if len(line) > 5 and line[1] == "FLOCK" and line[5] in found and int(line[4]) > 0
    }


def proves_death(session: str, path: str, inode: int, nonce: str) -> bool:
    """Whether every process of the session is certainly dead; ends processes it left behind.

    The files stay until `forget`: whoever finds the proof may fail to report it to the store.
    """
    folder, name = os.path.split(path)
    if not is_id(session) or name != session + _LOCK:
        return False
    try:
        with run_directory.opened(folder) as directory:
            return _both_are_free(directory, session, inode, nonce)
    except OSError:
        return False


def _both_are_free(directory: int, session: str, inode: int, nonce: str) -> bool:
    name = session + _LOCK
    core = _lock(directory, name + _CORE, None, nonce)
    try:
        if not marks.end_marked(session, seconds=1.0):
            return False
        os.close(_lock(directory, name, inode, nonce))
        return True
    finally:
        os.close(core)


def forget(session: str, path: str) -> None:
    """Delete the files of a session that is dead, once the store knows."""
    folder, name = os.path.split(path)
    if not is_id(session) or name != session + _LOCK:
        return
    with contextlib.suppress(OSError), run_directory.opened(folder) as directory:
        for file in (name, name + _CORE):
            with contextlib.suppress(OSError):
                os.unlink(file, dir_fd=directory)


def _lock(directory: int, name: str, inode: int | None, nonce: str) -> int:
    """Lock the file and return its descriptor; raises if it is another file, or is locked."""
    descriptor = os.open(name, _LOOK, dir_fd=directory)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.fstat(directory).st_uid:
            raise OSError(errno.EINVAL, "not a file of the owner of its directory")
        if inode is not None and found.st_ino != inode:
            raise OSError(errno.ESTALE, "another file")
        if found.st_uid == os.geteuid():
            # An older version let other users read, and so also lock, the file.
            run_directory.close_to_others(descriptor, _PRIVATE)
        if os.read(descriptor, 64) != nonce.encode():
            raise OSError(errno.ESTALE, "the file of another session")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
