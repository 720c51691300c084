"""One connection to a server: the driver opens it, commands and answers bypass the driver.

The driver's way from a command to its answer costs as much as all the rest of a single enqueue,
mostly for features that are not used here: its own retries, health checks, pushed messages.
"""

import contextlib
import select
import socket
from typing import Any

import hiredis
from redis import exceptions

from limpet.storage.redis.location import Address

_MOST_BYTES_AT_ONCE = 1 << 16


class Connection:
    """One connection, and which process of the server is at its other end."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self.address: Address = (
            (driver.path, 0) if hasattr(driver, "path") else (driver.host, driver.port)
        )
        self.facts: dict[str, str] = {}

    @property
    def run(self) -> str:
        """The id of this start of the server; empty where the server does not give it."""
        return self.facts.get("run_id", "")

    def open(self, *, with_facts: bool = True) -> None:
        self._driver.connect()
        self._sock: socket.socket = self._driver._sock
        # The driver's parser knows the server's errors; the driver has read all its answers by now.
        self._reader = hiredis.Reader(
            protocolError=exceptions.InvalidResponse, replyError=self._driver._parser.parse_error
        )
        self._unread = select.poll()
        self._unread.register(self._sock, select.POLLIN)
        if with_facts:
            # A server that forbids INFO is refused before the first verb (schema.py), not here.
            with contextlib.suppress(exceptions.NoPermissionError):
                self.facts = facts_of(self.execute("INFO", "server"))

    def execute(self, *words: Any) -> Any:
        """Send one command and return its answer; an error of the server is raised."""
        self._sock.sendall(hiredis.pack_command(words))
        return self._answer()

    def send(self, *words: Any) -> None:
        self._sock.sendall(hiredis.pack_command(words))

    def listen(self, seconds: float) -> Any:
        """The next message of a subscription; None when none came in time."""
        timeout_seconds = self._sock.gettimeout()
        self._sock.settimeout(seconds)
        try:
            return self._answer()
        except TimeoutError:
            return None
        finally:
            self._sock.settimeout(timeout_seconds)

    def _answer(self) -> Any:
        answer = self._reader.gets()
        while answer is False:  # not all of it is here
            data = self._sock.recv(_MOST_BYTES_AT_ONCE)
            if not data:
                raise exceptions.ConnectionError("the server closed the connection")
            self._reader.feed(data)
            answer = self._reader.gets()
        if isinstance(answer, exceptions.RedisError):
            raise answer
        return answer

    def is_clean(self) -> bool:
        """Whether the connection is still open and has no unread bytes."""
        return not self._unread.poll(0)

    def interrupt(self) -> None:
        """End a read of another thread; that thread closes the connection."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(exceptions.RedisError, OSError):
            self._driver.disconnect()


def facts_of(info: bytes) -> dict[str, str]:
    """The lines of an INFO as names and values."""
    lines = (line.partition(":") for line in info.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in lines if colon}
