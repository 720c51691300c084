"""Rings bells in this process by the server's messages: one connection and one thread per process.

A script rings each topic once, however many jobs it moved. A message that is sent while a process
is not connected is lost; so after a new connection the process rings all its bells once.
"""

import contextlib
import threading
import time
import weakref

from redis import exceptions

from limpet.domain.errors import StoreUnreachable
from limpet.domain.fork import anew_in_child
from limpet.storage.contract.bell import Topic
from limpet.storage.pipe_bell import PipeBell
from limpet.storage.redis.connection import Connection
from limpet.storage.redis.connections import RedisConnections
from limpet.storage.redis.failures import is_elsewhere, is_lost, moved_to, translate_error

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
# A connection that was cut silently is noticed after two of these.
_PULSE_SECONDS = 5.0


class Bells:
    """The bells of one store in one process."""

    def __init__(self, connections: RedisConnections) -> None:
        self._connections = connections
        self._channel = connections.location.key.removesuffix("store")
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """A child has neither the thread nor the connection of its parent."""
        self._lock = threading.Lock()
        self._subscription_changed = threading.Condition(self._lock)
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
        self._was_subscribed = False

    def listen(self, topic: Topic) -> PipeBell:
        """A bell for what happens from now on: the server has confirmed the subscription."""
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
                if not self._subscription_changed.wait(deadline - time.monotonic()):
                    break
            if topic in self._subscribed:
                return bell
            failed = self._failed
        bell.close()
        where = self._connections.location.url
        if failed is None:
            raise StoreUnreachable(f"{where} did not confirm the subscription to {topic} in time.")
        raise translate_error(failed, where) from failed

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
                    self._receive(connection, self._subscribe(connection))
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
        """A connection to the server; in a cluster to the node that has the name space.

        That node passes its messages on to the others, but not while they have only just met.
        """
        connection = self._connections.take()
        if self._connections.location.kind == "cluster":
            try:
                connection.execute("EXISTS", self._connections.location.key)
            except exceptions.ResponseError as error:
                connection.close()
                self._connections.forget(moved_to(error))
                connection = self._connections.take()
        return connection

    def _subscribe(self, connection: Connection) -> set[Topic]:
        """Subscribe to every topic that has listeners, and return these topics."""
        with self._lock:
            self._connection = connection
            wanted = set(self._wanted)
            connection.send("SUBSCRIBE", *(self._channel + topic for topic in sorted(wanted)))
        return wanted

    def _receive(self, connection: Connection, unconfirmed: set[Topic]) -> None:
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
                    self._subscription_changed.notify_all()
                if topic in unconfirmed:
                    unconfirmed.remove(topic)
                    if not unconfirmed:
                        self._is_back()
            elif kind == b"message":
                self._ring(self._topic(message[1]))

    def _is_back(self) -> None:
        """All topics are subscribed; messages since the last connection were missed."""
        self._pause = _SHORTEST_PAUSE_SECONDS
        if self._was_subscribed:
            self._ring_all()
        self._was_subscribed = True

    def _topic(self, channel: bytes) -> Topic:
        return Topic(channel.decode().removeprefix(self._channel))

    def _lost(self, error: Exception) -> None:
        if is_lost(error):
            # Connections that had an answer since the last sign of life are good.
            self._connections.lose_sight(time.monotonic() - _PULSE_SECONDS)
        elif is_elsewhere(error):
            self._connections.forget()
        with self._lock:
            self._failed = error
            self._subscription_changed.notify_all()

    def _ring(self, topic: Topic) -> None:
        with self._lock:
            bells = list(self._bells[topic])
        for bell in bells:
            bell.ring()

    def _ring_all(self) -> None:
        for topic in Topic:
            self._ring(topic)
