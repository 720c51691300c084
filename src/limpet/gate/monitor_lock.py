"""Elects the monitor of a host, for one store: the process that holds a file lock."""

import contextlib
import fcntl
import os

from limpet.host.locks import open_monitor


class MonitorLock:
    """The file lock of a monitor; the kernel frees it when its process ends, however it ends."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._path = ""
        self._descriptor: int | None = None
        self._ours = False

    def is_ours(self) -> bool:
        """Take the lock if it is free; True while this process holds it."""
        if not self._ours:
            if self._descriptor is None:
                self._path, self._descriptor = open_monitor(self._name)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            self._ours = self._is_there(self._descriptor)
            if not self._ours:
                self.close()
        return self._ours

    def _is_there(self, descriptor: int) -> bool:
        """Whether the locked file is the one under that name. An old file that nobody had locked
        may have been removed before we locked it, and another process may have locked a new one.
        """
        with contextlib.suppress(OSError):
            there = os.stat(self._path, follow_symlinks=False)
            return os.path.samestat(os.fstat(descriptor), there)
        return False

    def close(self) -> None:
        """Free the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._ours = None, False
