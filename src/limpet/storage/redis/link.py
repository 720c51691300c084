"""Runs each verb on the server as one script, which happens wholly or not at all."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from redis import exceptions

from limpet.domain.clock import Clock
from limpet.domain.errors import StoreUnreachable
from limpet.domain.fork import anew_in_child
from limpet.storage.assets import LuaScript, lua
from limpet.storage.contract.refusals import made_before_release, of_texts
from limpet.storage.contract.relocation import refused
from limpet.storage.redis import schema
from limpet.storage.redis.connection import Connection
from limpet.storage.redis.connections import RedisConnections
from limpet.storage.redis.failures import (
    is_elsewhere,
    is_lost,
    is_missing_script,
    moved_to,
    translate_error,
)
from limpet.storage.redis.layout import in_numbers
from limpet.storage.redis.location import Location

PACKAGE = __package__ or "limpet.storage.redis"

# How often one call may be redirected, or find the store gone, before it gives up.
_MOST_ATTEMPTS = 5
_NO_STORE, _CLOSED = -1, -2
_BEFORE_RELEASE = 1

packed = msgspec.msgpack.Encoder().encode


def as_text(data: bytes) -> msgspec.Raw:
    """Bytes to send among other values, as a text: the scripts read any bytes as texts."""
    size = len(data)
    if size < 32:
        head = bytes([0xA0 | size])
    elif size < 1 << 16:
        head = b"\xda" + size.to_bytes(2, "big")
    else:
        head = b"\xdb" + size.to_bytes(4, "big")
    return msgspec.Raw(head + data)


def script_of(verb: str) -> LuaScript:
    """The script of a verb, as it is sent to the server."""
    return lua(PACKAGE, "lua", verb, in_numbers)


class RedisLink:
    """The way to the server; any thread may call verbs."""

    def __init__(self, location: Location, clock: Clock | None) -> None:
        self.location = location
        self.clock = clock
        self.connections = RedisConnections(location)
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """A child checks for itself what its connections lead to."""
        self._lock = threading.Lock()
        self._fit: set[str] = set()
        self.done: list[str] = []
        # session → the last of its exchanges that was answered here
        self.answered: dict[str, int] = {}

    def migrate(self) -> tuple[str, ...]:
        """Make the store or bring it up to this version; return what was done since last time."""
        self.call("info", migrate=True)
        with self._lock:
            done, self.done = self.done, []
        return tuple(done)

    @of_texts
    def call(
        self,
        verb: str,
        *given: object,
        texts: Sequence[str | bytes] = (),
        migrate: bool = False,
        urgent: bool = False,
    ) -> list[Any]:
        """Run the script of a verb; the answer is what it returns. `urgent`: it renews a lease."""
        script = script_of(verb)
        began = time.monotonic()
        try:
            for _ in range(_MOST_ATTEMPTS):
                connection = self.connections.take(urgent=urgent)
                try:
                    answer = self._run(connection, script, given, texts, migrate)
                except exceptions.ResponseError as error:
                    self._done_with(connection, error, urgent=urgent)
                    if not self._goes_on(error):
                        raise
                except BaseException:
                    # An answer that still comes would be taken for that to another command.
                    self.connections.throw_away(connection, urgent=urgent)
                    raise
                else:
                    self.connections.give_back(connection, urgent=urgent)
                    if answer[0] == _CLOSED:
                        raise refused(self.call("relocation")[1])
                    if answer[0] != _NO_STORE:
                        return answer
                    with self._lock:
                        self._fit.clear()
        except (exceptions.RedisError, OSError) as error:
            self._lose_sight(error, began)
            raise translate_error(error, self.location.url) from error
        raise StoreUnreachable(
            f"{self.location.url} redirects from server to server, or is emptied again and again; "
            f"nothing was done."
        )

    def hold_lease(self, seconds: float) -> None:
        """Prepare for a session with this lease."""
        began = time.monotonic()
        try:
            self.connections.hold_lease(seconds)
        except (exceptions.RedisError, OSError) as error:
            self._lose_sight(error, began)
            raise translate_error(error, self.location.url) from error

    def execute(self, *words: object) -> Any:
        """Send one command of the server itself and return its answer."""
        began = time.monotonic()
        try:
            connection = self.connections.take()
            try:
                answer = connection.execute(*words)
            except exceptions.ResponseError:
                self.connections.give_back(connection)
                raise
            except BaseException:
                connection.close()
                raise
        except (exceptions.RedisError, OSError) as error:
            self._lose_sight(error, began)
            raise translate_error(error, self.location.url) from error
        self.connections.give_back(connection)
        return answer

    def _lose_sight(self, error: Exception, began: float) -> None:
        if is_lost(error):
            self.connections.lose_sight(began)
        elif is_elsewhere(error):
            self.connections.forget()

    def _run(
        self,
        connection: Connection,
        script: LuaScript,
        given: Sequence[object],
        texts: Sequence[str | bytes],
        migrate: bool,
    ) -> list[Any]:
        if migrate or connection.run not in self._fit:
            self._check(connection, migrate=migrate)
        head = packed((*self._times(), connection.run, *given))
        return self._evaluate(connection, script, (head, *texts))

    def _times(self) -> tuple[object, object]:
        """Wall time and lease clock of a test; False: the server's own are used."""
        if self.clock is not None:
            return self.clock.wall(), self.clock.boot()
        return False, False

    def _evaluate(
        self, connection: Connection, script: LuaScript, arguments: Sequence[str | bytes]
    ) -> list[Any]:
        key = self.location.key
        try:
            answer: list[Any] = connection.execute("EVALSHA", script.sha, 1, key, *arguments)
        except exceptions.ResponseError as error:
            if not is_missing_script(error):
                raise
            answer = connection.execute("EVAL", script.text, 1, key, *arguments)
        return answer

    def _check(self, connection: Connection, *, migrate: bool) -> None:
        """Refuse a server that does not fit, or whose store is not one for this version."""
        schema.check_server(connection, self.location)
        wall = self.clock.wall() if self.clock else False
        head = packed((wall, schema.new_epoch(), *schema.VERSIONS, connection.run))
        script = script_of("open")
        code, *answer = self._evaluate(connection, script, (head,))
        if code == _BEFORE_RELEASE:
            raise made_before_release(self.location.url)
        made, *versions = answer
        done = ["made the store"] if made else []
        if migrate and versions and versions[0] < schema.NEWEST:
            self._evaluate(connection, script_of("migrate"), (packed(schema.VERSIONS),))
            versions = self._evaluate(connection, script, (head,))[2:]
            done.append(f"brought it to schema {schema.NEWEST}")
        schema.check_version(self.location, *versions)
        with self._lock:
            self.done += done
            self._fit.add(connection.run)

    def _done_with(
        self, connection: Connection, error: exceptions.ResponseError, *, urgent: bool
    ) -> None:
        if is_elsewhere(error) or moved_to(error):
            self.connections.throw_away(connection, urgent=urgent)
        else:
            self.connections.give_back(connection, urgent=urgent)

    def _goes_on(self, error: exceptions.ResponseError) -> bool:
        """Whether to try the call again, on another server."""
        if self.location.kind == "cluster" and (address := moved_to(error)):
            self.connections.forget(address)
            return True
        if self.location.kind == "sentinel" and is_elsewhere(error):
            self.connections.forget()
            return True
        return False

    def close(self) -> None:
        self.connections.close()
