"""Connections to the server that has the name space now."""

import contextlib
import math
import threading
import time
from typing import Any

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from limpet.domain.fork import anew_in_child
from limpet.storage.idle import Idle
from limpet.storage.redis.connection import Connection, facts_of
from limpet.storage.redis.location import Address, Location

_MOST_IDLE, _MOST_URGENT = 16, 5
# Longest wait of a renewal for its answer, as a share of the shortest lease held here.
_URGENT_SHARE = 0.4
# Short, because there are other Sentinels to query.
_SENTINEL_TIMEOUT_SECONDS = 1.0


class RedisConnections:
    """Idle open connections, and the way to open another.

    A connection belongs to the thread that has taken it. Renewals have connections of their own.
    While a session is held, one connection more than are in use is kept open: a renewal whose
    answer is late is sent again on it, because to connect first takes several times as long.
    Behind a Sentinel or in a cluster the address is looked up, and looked up again when the server
    there no longer has the name space.
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """A child that used its parent's sockets would garble the answers of both."""
        self._lock = threading.Lock()
        self._idle: list[tuple[float, Connection]] = []  # since when
        self._urgent = Idle(_MOST_URGENT, "See what keeps the server.", in_turn=True)
        self._shortest_lease: float | None = None
        self._address: Address | None = None
        self._next_host = 0
        self._sentinel = 0

    def hold_lease(self, seconds: float) -> None:
        """Prepare for a session with this lease, which is renewed from now on.

        The connection for its renewals is open before the lease begins to run.
        """
        self._shortest_lease = min(self._shortest_lease or seconds, seconds)
        self.give_back(self.take(urgent=True), urgent=True)

    def take(self, *, urgent: bool = False) -> Connection:
        """An open connection with nothing unread; the caller gives it back or throws it away."""
        if urgent:
            return self._take_urgent()
        while True:
            with self._lock:
                if not self._idle:
                    break
                _, connection = self._idle.pop()
            if connection.is_clean():
                return connection
            connection.close()
        return self._open()

    def _take_urgent(self) -> Connection:
        connection: Connection | None = self._urgent.take()
        try:
            if connection is not None and connection.is_clean():
                return connection
            if connection is not None:
                connection.close()
            return self._open(urgent=True)
        except BaseException:
            self._urgent.give_back(None)
            raise

    def give_back(self, connection: Connection, *, urgent: bool = False) -> None:
        with self._lock:
            is_there = connection.address == self._address
            if is_there and not urgent and len(self._idle) < _MOST_IDLE:
                self._idle.append((time.monotonic(), connection))
                return
        if urgent:
            self._urgent.give_back(connection if is_there else None)
            self._open_spare()
        if not (urgent and is_there):
            connection.close()

    def throw_away(self, connection: Connection, *, urgent: bool = False) -> None:
        """Close a connection that is lost, or that may have a part of an answer unread."""
        connection.close()
        if urgent:
            self._urgent.give_back(None)

    def lose_sight(self, since: float) -> None:
        """A call that began at `since` (monotonic) had no answer.

        Connections without an answer since then are closed too. Where there is only one server,
        the others are good; else the name space may be on another server by now.
        """
        if self.location.kind == "unix" or (
            self.location.kind == "single" and len(self.location.hosts) == 1
        ):
            self._close_idle(since)
        else:
            self.forget()

    def forget(self, elsewhere: Address | None = None) -> None:
        """The server no longer has the name space; `elsewhere`: the one that it named instead."""
        with self._lock:
            self._address = elsewhere
            self._next_host += 1
        self._close_idle()

    def _close_idle(self, silent_since: float = math.inf) -> None:
        with self._lock:
            gone = [idle for since, idle in self._idle if since < silent_since]
            self._idle = [(since, idle) for since, idle in self._idle if since >= silent_since]
        for connection in (*gone, *self._urgent.empty(silent_since)):
            connection.close()

    def close(self) -> None:
        self._shortest_lease = None
        self.forget()

    def _open(self, *, urgent: bool = False) -> Connection:
        connection = Connection(self._make(self._where(), urgent=urgent))
        try:
            connection.open()
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_spare(self) -> None:
        """Open a spare connection in a thread, so that no renewal waits for a new one."""
        pool = self._urgent
        if self._shortest_lease is None or not pool.wants_spare():
            return

        def open_one() -> None:
            spare = None
            try:
                with contextlib.suppress(exceptions.RedisError, OSError):
                    spare = self._open(urgent=True)
            finally:
                wanted = self._shortest_lease is not None and self._urgent is pool
                if spare is not None and not wanted:
                    spare.close()
                    spare = None
                pool.add_spare(spare)

        try:
            threading.Thread(target=open_one, name="limpet-spare", daemon=True).start()
        except RuntimeError:  # no thread can be started, or the process ends
            pool.add_spare(None)

    def _where(self) -> Address:
        location = self.location
        with self._lock:
            if self._address is not None:
                return self._address
            next_host = self._next_host
        if location.kind == "unix":
            address = (location.path, 0)
        elif location.kind == "sentinel":
            address = self._query_sentinels()
        else:
            # Any node of a cluster will do: it names the node that has the slot.
            address = location.hosts[next_host % len(location.hosts)]
        with self._lock:
            self._address = address
        return address

    def _query_sentinels(self) -> Address:
        """The primary that a Sentinel names and that has that role by its own INFO.

        The Sentinel that answered last comes first. One that is cut off may name an old primary.
        """
        hosts = self.location.hosts
        refused: dict[Address, str] = {}
        last_error = ""
        for attempt in range(len(hosts)):
            place = (self._sentinel + attempt) % len(hosts)
            try:
                named = self._named_by(hosts[place])
            except (exceptions.RedisError, OSError) as error:
                last_error = str(error)
                continue
            if named is None or named in refused:
                continue
            refused[named] = self._why_no_primary(named)
            if not refused[named]:
                self._sentinel = place
                return named
        if refused:
            (host, port), why = refused.popitem()
            raise exceptions.ConnectionError(
                f"the Sentinels name {host}:{port} as the primary of {self.location.service!r}, "
                f"but {why}"
            )
        raise exceptions.ConnectionError(
            f"no Sentinel knows a primary of {self.location.service!r}"
            + (f": {last_error}" if last_error else "")
        )

    def _named_by(self, host: Address) -> Address | None:
        sentinel = Connection(self._make(host, sentinel=True))
        try:
            sentinel.open(with_facts=False)
            found = sentinel.execute("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.location.service)
        finally:
            sentinel.close()
        return (found[0].decode(), int(found[1])) if found else None

    def _why_no_primary(self, address: Address) -> str:
        """Why a server cannot be the primary; empty if it is."""
        server = Connection(self._make(address))
        try:
            server.open()
            role = facts_of(server.execute("INFO", "replication")).get("role", "master")
        except exceptions.NoPermissionError:
            return ""  # the server is refused later, with the reason
        except (exceptions.RedisError, OSError) as error:
            return f"it cannot be reached: {error}"
        finally:
            server.close()
        return "" if role == "master" else "it is a replica: a failover may be on its way"

    def _make(self, address: Address, *, sentinel: bool = False, urgent: bool = False) -> Any:
        location = self.location
        seconds = location.timeout_seconds
        if urgent and self._shortest_lease is not None:
            seconds = min(seconds, self._shortest_lease * _URGENT_SHARE)
        if sentinel:
            seconds = min(seconds, _SENTINEL_TIMEOUT_SECONDS)
        settings: dict[str, Any] = {
            "socket_timeout": seconds,
            "socket_connect_timeout": max(seconds, location.timeout_seconds) if urgent else seconds,
            "client_name": "limpet",
            "protocol": 2,
            # The caller decides what is sent again.
            "retry": Retry(NoBackoff(), 0),
        }
        if sentinel:
            settings |= {
                "username": location.sentinel_username,
                "password": location.sentinel_password,
            }
        else:
            settings |= {
                "db": location.db,
                "username": location.username,
                "password": location.password,
            }
        driver: Any = redis
        if location.kind == "unix":
            return driver.UnixDomainSocketConnection(path=address[0], **settings)
        settings |= {"host": address[0], "port": address[1], "socket_keepalive": True}
        if location.tls:
            return driver.SSLConnection(
                ssl_ca_certs=location.ca, ssl_check_hostname=True, **settings
            )
        return driver.Connection(**settings)
