"""The session's locks: proof on one host that every process of a session is dead.

Two files for each session, locked with `flock` through descriptors that its processes inherit. The
first is free only when the last process of the session is gone, executors included. The second is
held by guardian and supervisor alone: once it is free, nobody is left who would end the others, so
the finder does. Process ids prove nothing (they are reused, and hidden by namespaces), and neither
does a missing file. Standard library only, because the guardian imports it.
"""

import contextlib
import fcntl
import os
import time
from typing import NamedTuple

from limpet.host import marks

_LOCK, _CORE = ".lock", ".core"
# Ends the name of the file by whose lock the monitor of a host is elected.
MONITOR = ".monitor"
_OLD_SECONDS = 24 * 3600.0


def run_directory() -> str:
    """Where this user's sessions keep their locks: gone after a restart of the machine."""
    candidates = ["/run/limpet"] if os.getuid() == 0 else []
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        candidates.append(os.path.join(runtime, "limpet"))
    temporary = os.environ.get("TMPDIR", "/tmp")
    candidates.append(os.path.join(temporary, f"limpet-{os.getuid()}"))
    for path in candidates:
        with contextlib.suppress(OSError):
            os.makedirs(path, mode=0o755, exist_ok=True)
            # A directory that another user made could be swapped under our feet.
            if os.stat(path).st_uid == os.getuid() and os.access(path, os.W_OK):
                return path
    path = os.path.join(temporary, f"limpet-{os.getuid()}-{os.urandom(4).hex()}")
    os.mkdir(path, mode=0o700)
    return path


class HeldLocks(NamedTuple):
    """The locks of a living session, as its guardian made them."""

    path: str
    inode: int
    nonce: str
    whole: int
    core: int

    def let_go(self) -> None:
        """Close this process's share; the lock is free when everybody has."""
        os.close(self.whole)
        os.close(self.core)

    def remove(self) -> None:
        """Delete the files of a session that ended in order."""
        _remove(self.path)


def _remove(path: str) -> None:
    for each in (path, path + _CORE):
        with contextlib.suppress(OSError):
            os.unlink(each)


def take(session: str) -> HeldLocks:
    """Make and lock the files of a new session."""
    folder = run_directory()
    _tidy(folder)
    path = os.path.join(folder, session + _LOCK)
    nonce = os.urandom(8).hex()
    whole = _make(path, nonce)
    try:
        core = _make(path + _CORE, nonce)
    except OSError:
        os.close(whole)
        os.unlink(path)
        raise
    return HeldLocks(path, os.fstat(whole).st_ino, nonce, whole, core)


def _tidy(folder: str) -> None:
    """Remove what sessions and monitors left whose store nobody serves any more.

    Older than any lease, so no proof of death is taken from anybody who still waits for one.
    """
    for name in os.listdir(folder):
        if not name.endswith((_LOCK, _LOCK + _CORE, MONITOR)):
            continue
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            if time.time() - os.stat(path).st_mtime > _OLD_SECONDS:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path)
                finally:
                    os.close(descriptor)


def _make(path: str, nonce: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        os.write(descriptor, nonce.encode())
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        os.unlink(path)
        raise
    return descriptor


def proves_death(session: str, path: str, inode: int, nonce: str) -> bool:
    """Whether every process of the session is certainly dead; ends what its owners left behind.

    The files stay until `forget`: whoever finds the proof may fail to tell the store of it.
    """
    core = _lock(path + _CORE, None, nonce)
    if core is None:
        return False
    try:
        if not marks.end_marked(session, seconds=1.0):
            return False
        whole = _lock(path, inode, nonce)
        if whole is None:
            return False
        os.close(whole)
        return True
    finally:
        os.close(core)


def forget(path: str) -> None:
    """Delete the files of a dead session, once the store knows."""
    _remove(path)


def _lock(path: str, inode: int | None, nonce: str) -> int | None:
    """The locked file, if it is the one meant and nobody else has the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if inode is not None and found.st_ino != inode:
            raise OSError
        if os.geteuid() not in (0, found.st_uid):
            raise OSError  # what that user's session left behind can be neither seen nor ended
        if os.read(descriptor, 64).decode(errors="replace") != nonce:
            raise OSError
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
