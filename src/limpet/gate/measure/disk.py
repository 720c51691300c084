"""Reads the free space of a disk, which may not answer for hours."""

import os
import threading


class Disk:
    """A disk, read in a thread: a network file system that is away blocks every reader."""

    def __init__(self, path: str, timeout_seconds: float = 0.1) -> None:
        """`timeout_seconds`: how long a look waits for the answer."""
        self._path = path
        self._timeout_seconds = timeout_seconds
        self._thread: threading.Thread | None = None
        self._answer: tuple[int | None, str] = None, ""

    def free(self) -> tuple[int | None, str]:
        """How many bytes are free, or None and the reason."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._read, name="limpet-disk", daemon=True)
            self._thread.start()
            self._thread.join(self._timeout_seconds)
        if self._thread.is_alive():
            return None, "disk not known: it does not answer"
        self._thread = None
        return self._answer

    def _read(self) -> None:
        try:
            found = os.statvfs(self._path)
            self._answer = found.f_bavail * found.f_frsize, ""
        except OSError as error:
            self._answer = None, f"disk not known: {error.strerror}"
