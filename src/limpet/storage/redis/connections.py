"""Connections to the server that has the name space now, whoever that is."""

import threading
from typing import Any

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from limpet.domain.fork import anew_in_child
from limpet.storage.redis.connection import Connection, facts_of
from limpet.storage.redis.location import Address, Location

_MOST_IDLE = 16
# There are others to ask.
_PATIENCE_WITH_SENTINELS_SECONDS = 1.0


class Connections:
    """Open connections that nobody uses just now, and how to make another.

    Each belongs to whoever has taken it. Behind a Sentinel or in a cluster the address is asked
    for, and asked for again when the server there is no longer the one.
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """The sockets of a parent are its own; a child that used them would garble both."""
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._address: Address | None = None
        self._turn = 0
        self._sentinel = 0

    def take(self) -> Connection:
        """A connection that is open and has nothing unread."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if connection.is_clean():
                return connection
            connection.close()
        connection = Connection(self._make(self._where()))
        connection.open()
        return connection

    def give_back(self, connection: Connection) -> None:
        with self._lock:
            if connection.address == self._address and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def forget(self, elsewhere: Address | None = None) -> None:
        """The server is no longer the one to ask; `elsewhere` if it said who is."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._address = elsewhere
            self._turn += 1
        for connection in idle:
            connection.close()

    def close(self) -> None:
        self.forget()

    def _where(self) -> Address:
        location = self.location
        with self._lock:
            if self._address is not None:
                return self._address
            turn = self._turn
        if location.kind == "unix":
            address = (location.path, 0)
        elif location.kind == "sentinel":
            address = self._ask_sentinels()
        else:
            # Of a cluster any node will do: it says who has the slot.
            address = location.hosts[turn % len(location.hosts)]
        with self._lock:
            self._address = address
        return address

    def _ask_sentinels(self) -> Address:
        """The primary that a Sentinel names, and that says the same of itself.

        Whoever answered last is asked first; one that is cut off may name an old primary.
        """
        hosts = self.location.hosts
        refused: dict[Address, str] = {}
        told = ""
        for turn in range(len(hosts)):
            place = (self._sentinel + turn) % len(hosts)
            try:
                named = self._named_by(hosts[place])
            except (exceptions.RedisError, OSError) as error:
                told = str(error)
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
            + (f": {told}" if told else "")
        )

    def _named_by(self, host: Address) -> Address | None:
        sentinel = Connection(self._make(host, sentinel=True))
        try:
            sentinel.open(told=False)
            found = sentinel.say("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.location.service)
        finally:
            sentinel.close()
        return (found[0].decode(), int(found[1])) if found else None

    def _why_no_primary(self, address: Address) -> str:
        """Why a server cannot be the primary; empty if it is."""
        server = Connection(self._make(address))
        try:
            server.open()
            role = facts_of(server.say("INFO", "replication")).get("role", "master")
        except exceptions.NoPermissionError:
            return ""  # and refused later, with the reason
        except (exceptions.RedisError, OSError) as error:
            return f"it cannot be reached: {error}"
        finally:
            server.close()
        return "" if role == "master" else "it is a replica: a failover may be on its way"

    def _make(self, address: Address, *, sentinel: bool = False) -> Any:
        location = self.location
        seconds = location.timeout_seconds
        if sentinel:
            seconds = min(seconds, _PATIENCE_WITH_SENTINELS_SECONDS)
        settings: dict[str, Any] = {
            "socket_timeout": seconds,
            "socket_connect_timeout": seconds,
            "client_name": "limpet",
            "protocol": 2,
            # What is said again is for the caller to decide.
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
