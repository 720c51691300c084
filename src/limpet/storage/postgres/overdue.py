"""Cuts connections on which an answer is overdue.

The server bounds every statement, and TCP notices a peer that is gone. Neither notices a server, or
a pooler before it, that hangs: its machine accepts what is sent, and no answer ever comes.
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
# After this many looks without a connection in use the thread ends; the next verb starts it again.
_IDLE_LOOKS = 40


@dataclass(slots=True)
class ConnectionUse:
    """One use of a connection: when it began, how long it may take, whether it was cut here."""

    since: float
    until: float
    cut: bool = False


class Overdue:
    """Watches the connections of this process that are in use."""

    def __init__(self) -> None:
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """In a child: the connections in use are the parent's."""
        self._lock = threading.Lock()
        self._used: dict[Any, ConnectionUse] = {}
        # When an answer came last, on any of the connections.
        self._answered = 0.0
        self._thread: threading.Thread | None = None

    @contextmanager
    def watched(self, connection: Any, seconds: float) -> Iterator[ConnectionUse]:
        """Cut the connection if this use of it takes longer than `seconds`."""
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
        # If the use with the shortest limit had no answer, and no other connection had one
        # meanwhile, then the server hangs: every use that has waited as long is cut too, but for
        # those without a limit. If another connection had an answer, the server does not hang:
        # packets of one connection were lost.
        hangs = self._answered < now - min(late)
        for connection, use in self._used.items():
            waits_as_long = hangs and now - use.since >= min(late) and use.until < math.inf
            if waits_as_long or now > use.until:
                use.cut = True
                _cut(connection)


OVERDUE = Overdue()


def _cut(connection: Any) -> None:
    """Shut the socket down: the thread that waits for an answer gets an error, and closes it."""
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as copy:
        copy.shutdown(socket.SHUT_RDWR)
