"""The run directory: where a user's sessions on this host keep their locks.

In /run or the user's own runtime directory it is gone after a restart of the machine; elsewhere it
lies in a folder where every user may write, and another user may have taken its name before. So it
is used only if it is a directory, not a link, belongs to this user, and is private. If the name is
taken there is one fallback, which every process of the user finds again by its owner. Files in it
are opened relative to the descriptor of the directory that was checked. Standard library only,
because the guardian imports it.
"""

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator

# The system's own place for files that are gone after a restart.
SYSTEM = "/run"
_TEMPORARY = "/tmp"
_PRIVATE = 0o700
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK
# Opens a folder that this user may pass through but perhaps not list.
_PASS_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_OF_USER = re.compile(r"limpet-(\d{1,10})(?:-[0-9a-f]{8})?")
_RUNTIME_OF_USER = re.compile(r"/run/user/(\d{1,10})")
# How long to wait for the lock of a shared folder, which any user may hold. Without the lock two
# processes that begin at the same moment could disagree about the fallback for a moment.
_AGREE_SECONDS = 1.0


def run_directory() -> str:
    """The path of this user's run directory; made if it does not exist."""
    trouble: OSError | None = None
    for parent, name in _usual():
        path = os.path.join(parent, name)
        try:
            with _opened(parent, _PASS_THROUGH) as above:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, _PRIVATE, dir_fd=above)
                os.close(_open_own(above, name))
        except OSError as error:
            trouble = trouble or _naming(path, error)
        else:
            if os.access(path, os.W_OK):
                return path
            trouble = trouble or OSError(errno.EROFS, os.strerror(errno.EROFS), path)
    for parent in _temporary():
        with contextlib.suppress(OSError):
            return _fallback(parent)
    assert trouble is not None
    raise trouble


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """A descriptor of a run directory of this host whose user's processes can be ended from here.

    Raises `OSError` for any other path, without opening anything there.
    """
    parent, name = os.path.split(path)
    users = _users(parent, name)
    if os.geteuid() != 0:
        users &= {os.geteuid()}
    if not users:
        raise FileNotFoundError(errno.ENOENT, "not a run directory of this host", path)
    with _opened(parent, _PASS_THROUGH) as above:
        descriptor = os.open(name, _OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        if os.fstat(descriptor).st_uid not in users:
            raise PermissionError(errno.EACCES, "the directory is another user's", path)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def opened_own() -> Iterator[tuple[str, int]]:
    """The path of this user's run directory and a descriptor of it; made if it does not exist."""
    path = run_directory()
    parent, name = os.path.split(path)
    with _opened(parent, _PASS_THROUGH) as above:
        descriptor = _open_own(above, name)
    try:
        yield path, descriptor
    finally:
        os.close(descriptor)


def close_to_others(descriptor: int, mode: int) -> None:
    """Give this mode to a file or directory of this user, if it has another."""
    if os.fstat(descriptor).st_mode & 0o777 != mode:
        os.fchmod(descriptor, mode)


def _usual() -> Iterator[tuple[str, str]]:
    """Parent and name of each usual place of the run directory, the best first."""
    user = os.geteuid()
    if user == 0:
        yield SYSTEM, "limpet"
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        yield os.path.abspath(runtime), "limpet"
    for parent in _temporary():
        yield parent, f"limpet-{user}"


def _temporary() -> list[str]:
    own = os.path.abspath(os.environ.get("TMPDIR") or _TEMPORARY)
    return list(dict.fromkeys((own, _TEMPORARY)))


def _users(parent: str, name: str) -> set[int]:
    """The users whose run directory may have this parent and name; none if no user's may."""
    found: set[int] = set()
    for usual in _usual():
        if usual == (parent, name):
            found.add(os.geteuid())
    if (parent, name) == (SYSTEM, "limpet"):
        found.add(0)
    if name == "limpet" and (of_user := _RUNTIME_OF_USER.fullmatch(parent)):
        found.add(int(of_user[1]))
    if parent in _temporary() and (of_user := _OF_USER.fullmatch(name)):
        found.add(int(of_user[1]))
    return found


@contextlib.contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_own(above: int, name: str) -> int:
    """Open the directory of that name if it is this user's, and make it private if it is not."""
    descriptor = os.open(name, _OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, "it is another user's")
        close_to_others(descriptor, _PRIVATE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _fallback(parent: str) -> str:
    """The run directory of this user where its usual name is taken.

    Two processes that find none at the same time agree on one, because each looks again under the
    lock of the parent folder before it makes one. If another user keeps that lock, both go on
    without it, and from then on all take the first by name; sessions in another directory are still
    found, because their rows in the store have its path.
    """
    with _opened(parent, _OPEN_DIRECTORY) as above:
        if (name := _first_own(above)) is None:
            with _lock_for_a_while(above):
                if (name := _first_own(above)) is None:
                    made = f"limpet-{os.geteuid()}-{os.urandom(4).hex()}"
                    os.mkdir(made, _PRIVATE, dir_fd=above)
                    name = _first_own(above) or made
    return os.path.join(parent, name)


def _first_own(above: int) -> str | None:
    """The first fallback by name that this user can use; directories of other users are skipped."""
    own = f"limpet-{os.geteuid()}-"
    for name in sorted(os.listdir(above)):
        if name.startswith(own) and _OF_USER.fullmatch(name):
            with contextlib.suppress(OSError):
                os.close(_open_own(above, name))
                return name
    return None


@contextlib.contextmanager
def _lock_for_a_while(above: int) -> Iterator[None]:
    until = time.monotonic() + _AGREE_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            fcntl.flock(above, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        time.sleep(0.005)
    yield  # closing the descriptor frees it


def _naming(path: str, error: OSError) -> OSError:
    return OSError(error.errno, error.strerror, path)
