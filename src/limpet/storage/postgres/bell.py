"""Wakes the other processes of a store: LISTEN on one connection, in a thread of its own.

A transaction pooler between here and the server takes LISTEN and never tells; so the thread rings
itself once at the start, and where it does not hear that, it rings all bells by the clock instead.
Where it can tell before that its connection is lent to others it does not even ask: the server
would go on telling whoever it is lent to.
A connection that was lost is opened again and all bells are rung once, for what was missed.
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
from limpet.storage.contract.store import Topic
from limpet.storage.pipe_bell import PipeBell
from limpet.storage.postgres.database import Connection, Database, quoted
from limpet.storage.postgres.failures import said
from limpet.storage.postgres.overdue import OVERDUE
from limpet.storage.postgres.transaction import statement

_log = logging.getLogger("limpet.store")

_START_SECONDS = 15.0
_PROBE_SECONDS = 2.0
_DEAF_POLL_SECONDS = 0.25
_LOOKS, _LOOK_SECONDS = 20, 0.005
# A connection on which nothing was heard for so long is asked whether it is still one; and how long
# it may take to answer.
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
        self.deaf = False
        self._lent = False
        self._teller: int | None = None

    def listen(self, topic: Topic) -> TopicBell:
        """A bell for what happens from now on."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._start()
        if not self._listening.wait(_START_SECONDS):
            raise StoreUnreachable(
                f"{self._database.location.url} does not answer; nobody can be woken by it."
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
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                with contextlib.closing(self._open()) as connection:
                    if self._listening.is_set():
                        self._ring_all()  # for what was missed meanwhile
                    self._listening.set()
                    pause = _FIRST_PAUSE_SECONDS
                    if self._hear(connection, stop):
                        return
            except psycopg.Error as error:
                if self._lost(said(error, self._database.location), stop, pause):
                    return
            except LimpetError as error:
                if self._lost(error, stop, pause):
                    return
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _lost(self, error: LimpetError, stop: int, pause: float) -> bool:
        """The connection is gone; True to give up: nobody listened yet, or it is time to leave."""
        if not self._listening.is_set():
            self._failed = error
            self._listening.set()
            return True
        _log.warning(
            "the bells of the store are silent: %s", error, extra={"action": "store.bells"}
        )
        return _readable(stop, pause)

    def _open(self) -> Connection:
        connection = self._database.connect()
        try:
            self._lent = self._database.pooled and self._is_lent(connection)
            with OVERDUE.watched(connection, _ANSWER_SECONDS), connection.transaction():
                self._teller = None if self._lent else _server(connection)
                for topic in () if self._lent else (*Topic, _PROBE):
                    name = quoted(self._database.channel(topic))
                    text = statement("bell", "listen", self._database.location.quoted)
                    connection.execute(text.format(channel=name).encode())
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_lent(self, connection: Connection) -> bool:
        """Whether a pooler gives what answers here to another as soon as it is idle.

        Where others are busy, the same one may come back here by chance; so it is asked often.
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
        """Say it to the one that was told to listen, if that is the one which answers now."""
        if self._database.pooled and self._teller is not None:
            with connection.transaction():
                if _server(connection) == self._teller:
                    connection.execute(statement("bell", "unlisten", ""))
                    self._teller = None

    def _hear(self, connection: Connection, stop: int) -> bool:
        """Ring for what is heard; True when it is time to leave."""
        word = f"{os.getpid()}-{time.monotonic_ns()}"
        channel = self._database.channel(_PROBE)
        heard, until = False, time.monotonic()
        if not self._lent:
            self._database.once(lambda tx: tx.run("bell", "probe", channel=channel, word=word))
            until = time.monotonic() + _PROBE_SECONDS
        self.deaf = False
        while True:
            waits = _PULSE_SECONDS if heard else max(until - time.monotonic(), 0)
            readable = _wait(
                (connection.fileno(), stop), _DEAF_POLL_SECONDS if self.deaf else waits
            )
            if stop in readable:
                self._unlisten(connection)
                return True
            rung: set[str] = set()
            if heard and not readable:
                with OVERDUE.watched(connection, _ANSWER_SECONDS):
                    connection.execute(statement("bell", "pulse", self._database.location.quoted))
                self._ring_all()  # for what may have come with the answer
            if readable:
                for notify in connection.notifies(timeout=0):
                    heard = heard or notify.payload == word
                    rung.add(notify.channel)
            if heard and self.deaf:
                self.deaf = False
            elif not heard and not self.deaf and time.monotonic() >= until:
                self._say_deaf()
            self._ring(rung)
            if self.deaf:
                self._unlisten(connection)
                self._ring_all()

    def _say_deaf(self) -> None:
        self.deaf = True
        _log.warning(
            "%s does not pass notifications on, as behind a transaction pooler; looking every "
            "%d ms instead. Give workers a direct URL for quicker starts.",
            self._database.location.url,
            int(_DEAF_POLL_SECONDS * 1000),
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
