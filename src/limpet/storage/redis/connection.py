"""One connection to a server: the driver opens it, words and answers go past the driver.

The driver's way from a command to its answer costs as much as the rest of a lone enqueue together,
and most of it is for what is not used here: its own retries, health checks, pushed messages.
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
    """One connection; it knows which process of the server is at its other end."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self.address: Address = (
            (driver.path, 0) if hasattr(driver, "path") else (driver.host, driver.port)
        )
        self.facts: dict[str, str] = {}

    @property
    def run(self) -> str:
        """What changes with every start of a server; empty where it does not tell."""
        return self.facts.get("run_id", "")

    def open(self, *, told: bool = True) -> None:
        self._driver.connect()
        self._sock: socket.socket = self._driver._sock
        # The driver knows the names of the server's errors; it has read all answers by now.
        self._reader = hiredis.Reader(
            protocolError=exceptions.InvalidResponse, replyError=self._driver._parser.parse_error
        )
        self._unread = select.poll()
        self._unread.register(self._sock, select.POLLIN)
        if told:
            # One that forbids it is refused before the first verb (schema.py), not here.
            with contextlib.suppress(exceptions.NoPermissionError):
                self.facts = facts_of(self.say("INFO", "server"))

    def say(self, *words: Any) -> Any:
        """One command and its answer; an error of the server is raised."""
        self._sock.sendall(hiredis.pack_command(words))
        return self._answer()

    def send(self, *words: Any) -> None:
        self._sock.sendall(hiredis.pack_command(words))

    def listen(self, seconds: float) -> Any:
        """The next message of a subscription; None when none came in time."""
        patience = self._sock.gettimeout()
        self._sock.settimeout(seconds)
        try:
            return self._answer()
        except TimeoutError:
            return None
        finally:
            self._sock.settimeout(patience)

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
        """Whether it is still open, and nothing of an earlier answer is left in it."""
        return not self._unread.poll(0)

    def interrupt(self) -> None:
        """Let another thread that reads from it see its end; that thread closes it."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(exceptions.RedisError, OSError):
            self._driver.disconnect()


def facts_of(info: bytes) -> dict[str, str]:
    """The lines of an INFO as names and values."""
    lines = (line.partition(":") for line in info.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in lines if colon}
