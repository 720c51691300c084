"""Wakes whoever listens, by the server's own messages: one connection and one thread a process.

A script rings each topic once, however many jobs it moved. A message that is sent while nobody is
connected is lost; so whoever is connected anew rings everything once.
"""

import contextlib
import threading
import time
import weakref

from redis import exceptions

from limpet.domain.errors import StoreUnreachable
from limpet.domain.fork import anew_in_child
from limpet.storage.contract.store import Topic
from limpet.storage.pipe_bell import PipeBell
from limpet.storage.redis.connection import Connection
from limpet.storage.redis.connections import RedisConnections
from limpet.storage.redis.failures import is_elsewhere, is_lost, moved_to, said

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
# A connection that was cut without a word is noticed after two of these.
_PULSE_SECONDS = 5.0


class Bells:
    """The bells of one store in one process."""

    def __init__(self, connections: RedisConnections) -> None:
        self._connections = connections
        self._channel = connections.location.key.removesuffix("store")
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """The parent's thread and connection are not the child's."""
        self._lock = threading.Lock()
        self._heard = threading.Condition(self._lock)
        self._bells: dict[Topic, weakref.WeakSet[PipeBell]] = {
            topic: weakref.WeakSet() for topic in Topic
        }
        self._wanted: set[Topic] = set()
        self._subscribed: set[Topic] = set()
        self._connection: Connection | None = None
        self._thread: threading.Thread | None = None
        self._failed: Exception | None = None
        self._closed = False
        self._pause = _SHORTEST_PAUSE_SECONDS
        self._has_heard = False

    def listen(self, topic: Topic) -> PipeBell:
        """A bell for what happens from now on: the server has confirmed that it will be told."""
        bell = PipeBell()
        deadline = time.monotonic() + self._connections.location.timeout_seconds
        with self._lock:
            self._bells[topic].add(bell)
            self._wanted.add(topic)
            self._failed = None
            if self._thread is None:
                thread = threading.Thread(
                    target=self._serve, name="limpet-redis-bells", daemon=True
                )
                thread.start()
                self._thread = thread
            elif self._connection is not None and topic not in self._subscribed:
                with contextlib.suppress(exceptions.RedisError, OSError):
                    self._connection.send("SUBSCRIBE", self._channel + topic)
            while topic not in self._subscribed and self._failed is None:
                if not self._heard.wait(deadline - time.monotonic()):
                    break
            if topic in self._subscribed:
                return bell
            failed = self._failed
        bell.close()
        where = self._connections.location.url
        if failed is None:
            raise StoreUnreachable(f"{where} did not confirm in time that it will tell of {topic}.")
        raise said(failed, where) from failed

    def close(self) -> None:
        with self._lock:
            self._closed = True
            connection = self._connection
        if connection is not None:
            connection.interrupt()

    def _serve(self) -> None:
        while not self._closed:
            try:
                connection = self._take()
            except (exceptions.RedisError, OSError) as error:
                self._lost(error)
            else:
                try:
                    self._hear(connection, self._subscribe(connection))
                except (exceptions.RedisError, OSError) as error:
                    self._lost(error)
                finally:
                    with self._lock:
                        self._connection = None
                        self._subscribed.clear()
                    connection.close()
            if not self._closed:
                time.sleep(self._pause)
                self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)

    def _take(self) -> Connection:
        """A connection to the node of a cluster that has the name space, and so rings the bells.

        The others are told by that node, but not while they have only just met.
        """
        connection = self._connections.take()
        if self._connections.location.kind == "cluster":
            try:
                connection.say("EXISTS", self._connections.location.key)
            except exceptions.ResponseError as error:
                connection.close()
                self._connections.forget(moved_to(error))
                connection = self._connections.take()
        return connection

    def _subscribe(self, connection: Connection) -> set[Topic]:
        """Ask for every topic that anybody wants; the answer is which."""
        with self._lock:
            self._connection = connection
            asked = set(self._wanted)
            connection.send("SUBSCRIBE", *(self._channel + topic for topic in sorted(asked)))
        return asked

    def _hear(self, connection: Connection, asked: set[Topic]) -> None:
        quiet = 0
        while not self._closed:
            message = connection.listen(_PULSE_SECONDS)
            if message is None:
                quiet += 1
                if quiet > 1:
                    raise exceptions.TimeoutError("the subscription does not answer")
                with self._lock:
                    connection.send("PING")
                continue
            quiet = 0
            kind = bytes(message[0])
            if kind == b"subscribe":
                topic = self._topic(message[1])
                with self._lock:
                    self._subscribed.add(topic)
                    self._heard.notify_all()
                if topic in asked:
                    asked.remove(topic)
                    if not asked:
                        self._is_back()
            elif kind == b"message":
                self._ring(self._topic(message[1]))

    def _is_back(self) -> None:
        """The server will tell of everything from now on; what it told meanwhile was missed."""
        self._pause = _SHORTEST_PAUSE_SECONDS
        if self._has_heard:
            self._ring_all()
        self._has_heard = True

    def _topic(self, channel: bytes) -> Topic:
        return Topic(channel.decode().removeprefix(self._channel))

    def _lost(self, error: Exception) -> None:
        if is_lost(error):
            # Those that had an answer since the last sign of life are good.
            self._connections.lose_sight(time.monotonic() - _PULSE_SECONDS)
        elif is_elsewhere(error):
            self._connections.forget()
        with self._lock:
            self._failed = error
            self._heard.notify_all()

    def _ring(self, topic: Topic) -> None:
        with self._lock:
            bells = list(self._bells[topic])
        for bell in bells:
            bell.ring()

    def _ring_all(self) -> None:
        for topic in Topic:
            self._ring(topic)
