"""Access rights of a store's files: owner, group and others may each read and write, or neither.

SQLite and Limpet lock these files. A user who may open one, even only to read, may also lock it and
so keep all others from writing for as long as he likes: a read lock on one byte of `jobs.db-shm`
stops all writers, and so does a `flock` on a file of the writer lock. So a new store gives each
class of users both rights or none, whatever the umask; `-wal`, `-shm` and Limpet's own files beside
the database follow the database. This module never opens and closes a file that SQLite is using:
that would drop the locks that SQLite has on it in this process.
"""

import contextlib
import os
import shlex
import stat

from limpet import log
from limpet.domain.errors import StoreRefused

_BOTH = 0o6
_CLASSES = {"g": 3, "o": 0}
_BESIDE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_warned: set[str] = set()


def folder_of(path: str) -> str:
    """The folder beside a database file, for the files by which its processes cooperate."""
    return path + "-limpet"


def both_or_none(mode: int) -> int:
    """The mode without the rights of classes that may not both read and write; the owner may."""
    return sum(_BOTH << by for by in (6, 3, 0) if mode >> by & _BOTH == _BOTH) | 0o600


def make_database(path: str) -> None:
    """Make an empty file with the right mode, before SQLite makes it; an existing file stays.

    Errors are left to SQLite, which reports them better.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, _of_new())
        finally:
            os.close(descriptor)


def make_folder(path: str) -> None:
    """Make the folder beside the database (not the one that it is in); safe in many processes."""
    folder = folder_of(path)
    mode = _wanted(path)
    # A class of users that may not both read and write may not enter the folder either.
    mode |= sum(1 << by for by in (6, 3, 0) if mode >> by & _BOTH)
    try:
        os.mkdir(folder, mode)
    except FileExistsError:
        _refuse_of_stranger(folder, path)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _BESIDE)
    try:
        _settle(descriptor, path, mode)
    finally:
        os.close(descriptor)


def _refuse_of_stranger(folder: str, path: str) -> None:
    """Raise `StoreRefused` if the folder was made by a user who may not write to the store.

    Where all may write, as in /tmp, another user may make the folder first. By a lock in it he
    could stop every writer, and by a link in its place he could have files made elsewhere.
    """
    about = os.lstat(folder)
    owners = {0, os.geteuid()}
    mode = _wanted(path)
    with contextlib.suppress(FileNotFoundError):
        owners.add(os.stat(path).st_uid)
    is_shared = mode & (_BOTH << 3 | _BOTH) != 0
    if stat.S_ISDIR(about.st_mode) and (is_shared or about.st_uid in owners):
        return
    what = "a link" if stat.S_ISLNK(about.st_mode) else "not yours"
    raise StoreRefused(
        f"{folder} is in the way: it is {what}, and its owner could stop all writers to {path}. "
        f"Remove it, and keep the store in a folder to which only users you trust can write."
    )


def open_beside(path: str, name: str, flags: int) -> int:
    """Open a file in the folder beside the database; makes it if it is not there."""
    file = os.path.join(folder_of(path), name)
    while True:
        try:
            descriptor = os.open(file, flags | _BESIDE)
        except FileNotFoundError:
            pass
        else:
            _heal(descriptor, path)
            return descriptor
        with contextlib.suppress(FileExistsError):  # another process was first
            mode = _wanted(path)
            descriptor = os.open(file, flags | os.O_CREAT | os.O_EXCL | _BESIDE, mode)
            _settle(descriptor, path, mode)
            return descriptor


def look_after(path: str) -> None:
    """Give SQLite's files beside the database its mode; warn if a class may read but not write.

    Runs once for each store of this process, with the database open.
    """
    if path in _warned:
        return
    _warned.add(path)
    try:
        found = os.stat(path)
    except OSError:
        return
    if os.geteuid() not in (0, found.st_uid) and not os.access(path, os.W_OK):
        return  # a user who may only read cannot change the modes
    if _halves(found.st_mode):
        files = _files(path)
        halves = "".join(sorted({letter for file in files for letter in _halves(_mode(file))}))
        command = f"chmod -R {halves}-rwx {' '.join(map(shlex.quote, files))}"
        log.emit("store_half_open", path=path, command=command)
        return
    for file in (path + "-wal", path + "-shm"):
        with contextlib.suppress(OSError):
            about = os.lstat(file)
            wanted = both_or_none(found.st_mode)
            is_ours = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid()
            if is_ours and stat.S_IMODE(about.st_mode) != wanted:
                os.chmod(file, wanted)


def _files(path: str) -> list[str]:
    every = (path, path + "-wal", path + "-shm", folder_of(path))
    return [file for file in every if os.path.exists(file)]


def _mode(file: str) -> int:
    with contextlib.suppress(OSError):
        return os.stat(file).st_mode
    return 0


def _halves(mode: int) -> str:
    """The classes, without the owner, that have only one of both rights."""
    return "".join(who for who, by in _CLASSES.items() if mode >> by & _BOTH not in (0, _BOTH))


def _wanted(path: str) -> int:
    """The mode of files beside the database: that of the database, also before it exists."""
    try:
        return both_or_none(os.stat(path).st_mode)
    except FileNotFoundError:
        return _of_new()


def _of_new() -> int:
    return both_or_none(0o666 & ~_umask())


def _umask() -> int:
    """The umask of this process, from /proc: os.umask reads it only by changing it for a moment."""
    with contextlib.suppress(OSError), open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    found = os.umask(0o077)
    os.umask(found)
    return found


def _settle(descriptor: int, path: str, mode: int) -> None:
    """Give a new file the database's group and mode, and its owner if we may."""
    made = os.fstat(descriptor)
    with contextlib.suppress(OSError):
        found = os.stat(path)
        if (made.st_uid, made.st_gid) != (found.st_uid, found.st_gid):
            os.fchown(descriptor, found.st_uid if os.geteuid() == 0 else -1, found.st_gid)
    if made.st_mode & 0o777 != mode:
        with contextlib.suppress(OSError):  # a file system without modes
            os.fchmod(descriptor, mode | made.st_mode & stat.S_ISGID)


def _heal(descriptor: int, path: str) -> None:
    """Give a file of ours the database's mode if that one is right; older versions did not."""
    made = os.fstat(descriptor)
    with contextlib.suppress(OSError):
        found = os.stat(path)
        wanted = both_or_none(found.st_mode)
        follows = made.st_uid == os.geteuid() and not _halves(found.st_mode)
        if follows and stat.S_IMODE(made.st_mode) != wanted:
            os.fchmod(descriptor, wanted)
