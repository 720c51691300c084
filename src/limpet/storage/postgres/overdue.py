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
from dataclasses import dataclass
from typing import Any

from limpet.domain.fork import anew_in_child

_LOOK_SECONDS = 0.25
# A process that has said nothing for so long needs nobody to look; the next verb starts it again.
_IDLE_LOOKS = 40


@dataclass(slots=True)
class ConnectionUse:
    """One use of a connection: since when, until when it may take; whether it was cut here."""

    since: float
    until: float
    cut: bool = False


class Overdue:
    """Looks after the connections of this process that are in use."""

    def __init__(self) -> None:
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """In a child: what the parent uses is its own."""
        self._lock = threading.Lock()
        self._used: dict[Any, ConnectionUse] = {}
        # When the last of them had its answer.
        self._answered = 0.0
        self._thread: threading.Thread | None = None

    @contextmanager
    def watched(self, connection: Any, seconds: float) -> Iterator[ConnectionUse]:
        """Cut the connection if it is in use for longer than that."""
        since = time.monotonic()
        use = ConnectionUse(since, since + seconds)
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._look, name="limpet-overdue", daemon=True)
                thread.start()
                self._thread = thread
            self._used[connection] = use
        try:
            yield use
            self._answered = time.monotonic()
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
        late = [use.until - use.since for use in self._used.values() if now > use.until]
        if not late:
            return
        # Where the most impatient had no answer, and nobody else had one meanwhile, those who wait
        # for as long have none to hope for, but for one who reads everything. Where another had
        # one, it is not the server that hangs: packets of one connection were lost.
        hangs = self._answered < now - min(late)
        for connection, use in self._used.items():
            waits = hangs and now - use.since >= min(late) and use.until < math.inf
            if waits or now > use.until:
                use.cut = True
                _cut(connection)


OVERDUE = Overdue()


def _cut(connection: Any) -> None:
    """Let the thread that waits for it see its end; that thread closes it."""
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as some:
        some.shutdown(socket.SHUT_RDWR)
