"""Wakes the other processes of a file without polling and without a write to the disk.

To ring is to open a small file; the kernel wakes the processes that watch it through inotify. There
is no list of listeners, so none can be stale. (On macOS, where opening a file notifies nobody,
ringing touches the file, and kqueue reports it.) A missed ring delays a waiter by one slow poll; no
job is lost.
"""

import contextlib
import ctypes
import os
import select
import sys
from datetime import timedelta
from typing import Protocol

from limpet.domain.errors import StoreUnavailable
from limpet.storage.contract.bell import Topic
from limpet.storage.sqlite.failures import translate_os_error
from limpet.storage.sqlite.rights import folder_of, make_folder, open_beside

_IN_OPEN = 0x20
# Opening must not block or follow a link, whatever another user has put in that place.
_RING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def bell_file(path: str, topic: Topic) -> str:
    return os.path.join(folder_of(path), str(topic))


def ring(path: str, topic: Topic) -> None:
    """Wake all who listen for the topic; if the file is missing, there are none."""
    with contextlib.suppress(OSError):
        name = bell_file(path, topic)
        if sys.platform == "darwin":
            os.utime(name)
        else:
            os.close(os.open(name, _RING))


class FileBell:
    """A bell for a file: rings when any process of this machine rings the topic."""

    def __init__(self, path: str, topic: Topic) -> None:
        name = bell_file(path, topic)
        try:
            make_folder(path)
            self._file = open_beside(path, str(topic), os.O_RDONLY)
        except OSError as error:
            raise translate_os_error(error, path) from error
        try:
            self._watcher = _watch(name, self._file)
        except OSError as error:
            os.close(self._file)
            raise StoreUnavailable(
                f"cannot watch {name}: {error.strerror}. Raise the limits of inotify "
                f"(fs.inotify.max_user_instances and max_user_watches)."
            ) from error
        self._poll = select.poll()
        self._poll.register(self._watcher.fileno(), select.POLLIN)

    def fileno(self) -> int:
        return self._watcher.fileno()

    def wait(self, timeout: timedelta) -> bool:
        rang = bool(self._poll.poll(timeout.total_seconds() * 1000))
        if rang:
            self._watcher.drain()
        return rang

    def close(self) -> None:
        if self._file >= 0:
            self._watcher.close()
            os.close(self._file)
            self._file = -1


def _watch(name: str, descriptor: int) -> "_Watcher":
    if sys.platform == "darwin":
        return _Kqueue(descriptor)
    return _Inotify(name)


class _Watcher(Protocol):
    def fileno(self) -> int: ...

    def drain(self) -> None: ...

    def close(self) -> None: ...


class _Inotify:
    def __init__(self, name: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify: " + os.strerror(ctypes.get_errno()))
        if libc.inotify_add_watch(self._descriptor, os.fsencode(name), _IN_OPEN) < 0:
            number = ctypes.get_errno()
            os.close(self._descriptor)
            raise OSError(number, "inotify: " + os.strerror(number))

    def fileno(self) -> int:
        return self._descriptor

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, 65_536)

    def close(self) -> None:
        os.close(self._descriptor)


if sys.platform == "darwin":

    class _Kqueue:
        def __init__(self, descriptor: int) -> None:
            self._queue = select.kqueue()
            watch = select.kevent(
                descriptor,
                filter=select.KQ_FILTER_VNODE,
                flags=select.KQ_EV_ADD | select.KQ_EV_CLEAR,
                fflags=select.KQ_NOTE_ATTRIB,
            )
            self._queue.control([watch], 0)

        def fileno(self) -> int:
            return self._queue.fileno()

        def drain(self) -> None:
            self._queue.control(None, 64, 0)

        def close(self) -> None:
            self._queue.close()
