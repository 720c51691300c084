"""Cuts connections on which an answer is overdue.

The server bounds every statement, and TCP notices a peer that is gone. Neither notices a server, or
a pooler before it, that hangs: its machine takes what is sent, and no answer ever comes.
"""

import contextlib
import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from limpet.domain.fork import anew_in_child

_LOOK_SECONDS = 0.25
# A process that has said nothing for so long needs nobody to look; the next verb starts it again.
_IDLE_LOOKS = 40


class Overdue:
    """Looks after the connections of this process that are in use."""

    def __init__(self) -> None:
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """In a child: what the parent uses is its own."""
        self._lock = threading.Lock()
        # Connection → since when it is in use, until when it may be.
        self._used: dict[Any, tuple[float, float]] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def watched(self, connection: Any, seconds: float) -> Iterator[None]:
        """Cut the connection if it is in use for longer than that."""
        since = time.monotonic()
        with self._lock:
            self._used[connection] = (since, since + seconds)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._look, name="limpet-overdue", daemon=True
                )
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._used.pop(connection, None)

    def _look(self) -> None:
        idle = 0
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._lock:
                idle = 0 if self._used else idle + 1
                if idle > _IDLE_LOOKS:
                    self._thread = None
                    return
                self._cut_overdue(time.monotonic())

    def _cut_overdue(self, now: float) -> None:
        late = [until - since for since, until in self._used.values() if now > until]
        if not late:
            return
        # Where the most impatient had no answer, those who wait for as long have none to hope for,
        # but for one who reads everything.
        for connection, (since, until) in self._used.items():
            if now - since >= min(late) and until < math.inf:
                _cut(connection)


OVERDUE = Overdue()


def _cut(connection: Any) -> None:
    """Let the thread that waits for it see its end; that thread closes it."""
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as some:
        some.shutdown(socket.SHUT_RDWR)
