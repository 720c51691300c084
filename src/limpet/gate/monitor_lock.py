"""The post of the monitor of a host, for one store: one process at a time has it."""

import contextlib
import fcntl
import os

from limpet.host.locks import open_monitor


class MonitorLock:
    """Elected by a file lock that the kernel gives free when its process ends, however it does."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._path = ""
        self._descriptor: int | None = None
        self._ours = False

    def is_ours(self) -> bool:
        """Take it if it is free; for as long as this process lives."""
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
        """Whether it is the file that others see: one that was free and old may have been removed
        before we had its lock, and be locked under the same name by somebody else.
        """
        with contextlib.suppress(OSError):
            there = os.stat(self._path, follow_symlinks=False)
            return os.path.samestat(os.fstat(descriptor), there)
        return False

    def close(self) -> None:
        """Leave it to others."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._ours = None, False
