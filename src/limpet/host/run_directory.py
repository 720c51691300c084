"""The directory in which a user's sessions on this host keep their locks.

In /run or the user's own runtime directory it is gone after a restart of the machine; elsewhere it
lies in a folder where every user may write, and others may have taken its name before. So it is
used only if it is a directory of this user's, no link, and private. Where the name is taken there
is one fallback, which every process of the user finds again by its owner. Whoever opens a file in
it does so relative to the descriptor of the directory that was looked at. Standard library only,
because the guardian imports it.
"""

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator

# The system's own place for what is gone after a restart.
SYSTEM = "/run"
_TEMPORARY = "/tmp"
_PRIVATE = 0o700
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK
# Where files may lie of which nobody may be able to read the list.
_PASS_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_OF_USER = re.compile(r"limpet-(\d{1,10})(?:-[0-9a-f]{8})?")
_RUNTIME_OF_USER = re.compile(r"/run/user/(\d{1,10})")
# Another user may lock a folder that all may read; what is decided under that lock can wait no
# longer than this, and then only two processes that begin at once could disagree for a moment.
_AGREE_SECONDS = 1.0


def run_directory() -> str:
    """Where this user's sessions keep their locks; made if it is not there."""
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
    """A descriptor of a run directory of this host, and of a user whose processes can be ended.

    Raises `OSError` for any other path, of which nothing is opened.
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
    """The run directory of this user, and a descriptor of it; made if it is not there."""
    path = run_directory()
    parent, name = os.path.split(path)
    with _opened(parent, _PASS_THROUGH) as above:
        descriptor = _open_own(above, name)
    try:
        yield path, descriptor
    finally:
        os.close(descriptor)


def close_to_others(descriptor: int, mode: int) -> None:
    """Give a file or directory of this user's this mode, if it has another."""
    if os.fstat(descriptor).st_mode & 0o777 != mode:
        os.fchmod(descriptor, mode)


def _usual() -> Iterator[tuple[str, str]]:
    """Parent and name of each place where it may be, the best first."""
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
    """Whose run directory has this name in this place, if it is one of this host's."""
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
    """The directory of that name, if it is this user's; one that is too open is closed."""
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
    """The directory of this user's that is used where its usual name is taken.

    Two processes that find none at the same time agree on one, because each looks again under the
    lock of the folder above before it makes one. Another user may keep that lock: then each goes on
    without it, and all take the first by name; sessions in another one are found by their rows.
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
    """The first fallback by name that can be used; what others made under such names cannot."""
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
