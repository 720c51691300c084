"""Syncs, a moment later, commits that did not wait for the disk.

Only claims and the reports of hosts (which come again every second) are committed without waiting.
A power cut that undoes a claim also ends the worker that had it: the job is ready, as before. But a
job that brings the machine down must not come back uncounted for ever, so the sync is not left to
the operating system.
"""

import contextlib
import os
import threading

from limpet.domain.fork import anew_in_child

_sync = getattr(os, "fdatasync", os.fsync)


class LateSync:
    """Syncs the log of one database on request, in a thread of its own."""

    def __init__(self, path: str) -> None:
        self._log = f"{path}-wal"
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """Start anew in a child; the parent syncs its own commits."""
        self._requested = threading.Event()
        self._thread: threading.Thread | None = None

    def request(self) -> None:
        """Request a sync; the thread with the writing connection calls this."""
        self._requested.set()
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="limpet-sqlite-sync", daemon=True)
            with contextlib.suppress(RuntimeError):  # at exit; the next commit syncs everything
                thread.start()
                self._thread = thread

    def _serve(self) -> None:
        while self._requested.wait():
            self._requested.clear()
            with contextlib.suppress(OSError):  # the last process that closed removed the log
                descriptor = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    _sync(descriptor)
                finally:
                    os.close(descriptor)
