"""Wakes the waiting threads of this process: LISTEN on one connection, in a thread of its own.

A transaction pooler accepts LISTEN but never passes a notification on. So the thread sends itself a
probe at the start; if the probe does not arrive, it rings all bells by the clock instead. Where a
pooler is found to lend the server connection to other clients, the thread does not LISTEN at all:
the server would send the notifications to those clients.
A lost connection is opened again, and all bells are rung once for what was missed.
"""

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from limpet.domain.errors import LimpetError, StoreUnreachable
from limpet.domain.fork import anew_in_child
from limpet.storage.contract.bell import Topic
from limpet.storage.pipe_bell import PipeBell
from limpet.storage.postgres.database import Connection, Database, quoted
from limpet.storage.postgres.failures import translate_error
from limpet.storage.postgres.overdue import OVERDUE
from limpet.storage.postgres.transaction import statement

_log = logging.getLogger("limpet.store")

_START_SECONDS = 15.0
_PROBE_SECONDS = 2.0
_POLL_SECONDS = 0.25
_LOOKS, _LOOK_SECONDS = 20, 0.005
# The connection is tested after this long without a notification; how long the test may take.
_PULSE_SECONDS, _ANSWER_SECONDS = 10.0, 3.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
_PROBE = "probe"


class TopicBell(PipeBell):
    """A bell that leaves the ringer when it is closed."""

    def __init__(self, leave: Callable[["TopicBell"], None]) -> None:
        super().__init__()
        self._leave = leave

    def close(self) -> None:
        self._leave(self)
        super().close()


class Ringer:
    """Listens for a process, and rings its bells."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """In a child: the thread and its connection are the parent's."""
        self._lock = threading.Lock()
        self._bells: dict[TopicBell, Topic] = {}
        self._thread: threading.Thread | None = None
        self._listening = threading.Event()
        self._failed: LimpetError | None = None
        self._stop: tuple[int, int] | None = None
        self._polling = False
        self._lent = False
        self._listening_pid: int | None = None

    def listen(self, topic: Topic) -> TopicBell:
        """A bell that rings for what happens from now on."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._start()
        if not self._listening.wait(_START_SECONDS):
            raise StoreUnreachable(
                f"{self._database.location.url} does not answer, so it cannot wake anybody."
            )
        if self._failed is not None:
            raise self._failed
        bell = TopicBell(self._leave)
        with self._lock:
            self._bells[bell] = topic
        return bell

    def _start(self) -> None:
        self._listening.clear()
        self._failed = None
        if self._stop is None:
            self._stop = os.pipe()
        thread = threading.Thread(target=self._serve, name="limpet-bells", daemon=True)
        thread.start()
        self._thread = thread

    def _leave(self, bell: TopicBell) -> None:
        with self._lock:
            self._bells.pop(bell, None)

    def close(self) -> None:
        """End the thread; the bells stay silent from now on."""
        with self._lock:
            thread, stop = self._thread, self._stop
            self._thread = self._stop = None
        if thread is not None and stop is not None:
            os.write(stop[1], b"!")
            thread.join(_START_SECONDS)
            for descriptor in stop:
                os.close(descriptor)

    # -- the thread

    def _serve(self) -> None:
        assert self._stop is not None
        stop = self._stop[0]
        pause_seconds = _FIRST_PAUSE_SECONDS
        while True:
            try:
                with contextlib.closing(self._open()) as connection:
                    if self._listening.is_set():
                        self._ring_all()  # for what was missed meanwhile
                    self._listening.set()
                    pause_seconds = _FIRST_PAUSE_SECONDS
                    if self._receive(connection, stop):
                        return
            except psycopg.Error as error:
                if self._lost(translate_error(error, self._database.location), stop, pause_seconds):
                    return
            except LimpetError as error:
                if self._lost(error, stop, pause_seconds):
                    return
            pause_seconds = min(pause_seconds * 2, _LONGEST_PAUSE_SECONDS)

    def _lost(self, error: LimpetError, stop: int, pause_seconds: float) -> bool:
        """Handle a lost connection; True to give up: nobody listened yet, or it is time to stop."""
        if not self._listening.is_set():
            self._failed = error
            self._listening.set()
            return True
        _log.warning(
            "lost the connection for notifications; it will be opened again: %s",
            error,
            extra={"action": "store.bells"},
        )
        return _readable(stop, pause_seconds)

    def _open(self) -> Connection:
        connection = self._database.connect()
        try:
            self._lent = self._database.pooled and self._is_lent(connection)
            with OVERDUE.watched(connection, _ANSWER_SECONDS), connection.transaction():
                self._listening_pid = None if self._lent else _server(connection)
                for topic in () if self._lent else (*Topic, _PROBE):
                    name = quoted(self._database.channel(topic))
                    text = statement("bell", "listen", self._database.location.quoted)
                    connection.execute(text.format(channel=name).encode())
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_lent(self, connection: Connection) -> bool:
        """Whether a pooler lends the server process of this connection to others while it is idle.

        A pooler with busy clients may lend the same process again by chance, so look several times.
        """
        with contextlib.closing(self._database.connect()) as other:
            for _ in range(_LOOKS):
                own = _server(connection)
                with other.transaction():
                    if own == _server(other) or own != _server(connection):
                        return True
                time.sleep(_LOOK_SECONDS)
        return False

    def _unlisten(self, connection: Connection) -> None:
        """UNLISTEN in the server process that was sent LISTEN, if that is the one that answers."""
        if self._database.pooled and self._listening_pid is not None:
            with connection.transaction():
                if _server(connection) == self._listening_pid:
                    connection.execute(statement("bell", "unlisten", ""))
                    self._listening_pid = None

    def _receive(self, connection: Connection, stop: int) -> bool:
        """Ring for the notifications that arrive; True when it is time to stop."""
        word = f"{os.getpid()}-{time.monotonic_ns()}"
        channel = self._database.channel(_PROBE)
        proved, until = False, time.monotonic()
        if not self._lent:
            self._database.once(lambda tx: tx.run("bell", "probe", channel=channel, word=word))
            until = time.monotonic() + _PROBE_SECONDS
        self._polling = False
        while True:
            wait_seconds = _PULSE_SECONDS if proved else max(until - time.monotonic(), 0)
            readable = _wait(
                (connection.fileno(), stop), _POLL_SECONDS if self._polling else wait_seconds
            )
            if stop in readable:
                self._unlisten(connection)
                return True
            rung: set[str] = set()
            if proved and not readable:
                with OVERDUE.watched(connection, _ANSWER_SECONDS):
                    connection.execute(statement("bell", "pulse", self._database.location.quoted))
                self._ring_all()  # for notifications that came with the answer
            if readable:
                for notify in connection.notifies(timeout=0):
                    proved = proved or notify.payload == word
                    rung.add(notify.channel)
            if proved and self._polling:
                self._polling = False
            elif not proved and not self._polling and time.monotonic() >= until:
                self._start_polling()
            self._ring(rung)
            if self._polling:
                self._unlisten(connection)
                self._ring_all()

    def _start_polling(self) -> None:
        self._polling = True
        _log.warning(
            "%s does not pass notifications on, as behind a transaction pooler; looking every "
            "%d ms instead. Give workers a direct URL for quicker starts.",
            self._database.location.url,
            int(_POLL_SECONDS * 1000),
            extra={"action": "store.deaf"},
        )

    def _ring(self, channels: set[str]) -> None:
        with self._lock:
            bells = [
                bell
                for bell, topic in self._bells.items()
                if self._database.channel(topic) in channels
            ]
        for bell in bells:
            bell.ring()

    def _ring_all(self) -> None:
        with self._lock:
            bells = list(self._bells)
        for bell in bells:
            bell.ring()


def _server(connection: Connection) -> int:
    row: Any = connection.execute(statement("bell", "server", "")).fetchone()
    return int(row[0])


def _wait(descriptors: tuple[int, ...], seconds: float | None) -> set[int]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {found for found, _ in poll.poll(None if seconds is None else seconds * 1000)}


def _readable(descriptor: int, seconds: float) -> bool:
    return bool(_wait((descriptor,), seconds))
