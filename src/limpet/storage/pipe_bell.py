"""A bell within one process, rung by any of its threads."""

import contextlib
import os
import select
import threading
from datetime import timedelta


class PipeBell:
    """Rings within one process; `ring` may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)

    def ring(self) -> None:
        # The lock keeps the ringing thread from a descriptor that `close` is just closing.
        with self._lock, contextlib.suppress(BlockingIOError):
            if self._write >= 0:
                os.write(self._write, b"!")

    def fileno(self) -> int:
        return self._read

    def wait(self, timeout: timedelta) -> bool:
        rang = bool(self._poll.poll(timeout.total_seconds() * 1000))
        if rang:
            os.read(self._read, 65_536)
        return rang

    def close(self) -> None:
        with self._lock:
            if self._read >= 0:
                os.close(self._write)
                os.close(self._read)
                self._read = self._write = -1
