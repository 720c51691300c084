"""Makes durable, a moment later, what was committed without waiting for the disk.

Only claims are committed so, and what hosts say of themselves, which they say again every second. A
power cut that undoes a claim ends the worker that had it too: the job is ready, as before. But a
job that brings the machine down must not come back uncounted for ever, so the disk is not left to
its own time.
"""

import contextlib
import os
import threading

from limpet.domain.fork import anew_in_child

_sync = getattr(os, "fdatasync", os.fsync)


class LateSync:
    """Syncs the log of one database in a thread of its own, whenever it is asked to."""

    def __init__(self, path: str) -> None:
        self._log = f"{path}-wal"
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """In a child: the parent syncs what it has written."""
        self._asked = threading.Event()
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Sync soon; whoever has the writing connection calls it."""
        self._asked.set()
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="limpet-sqlite-sync", daemon=True)
            with contextlib.suppress(RuntimeError):  # at the very end; the next commit syncs all
                thread.start()
                self._thread = thread

    def _serve(self) -> None:
        while self._asked.wait():
            self._asked.clear()
            with contextlib.suppress(OSError):  # the last one out has taken the log away
                descriptor = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    _sync(descriptor)
                finally:
                    os.close(descriptor)
