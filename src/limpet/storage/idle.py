"""A pool of connections to a server, for renewals or for all other verbs; verbs take idle ones."""

import math
import threading
import time
from typing import Any

from limpet.domain.errors import StoreBusy

TAKE_TIMEOUT_SECONDS = 30.0


class Idle:
    """The idle connections, in the order of their last use; limits how many are open."""

    def __init__(self, most: int, advice: str, *, in_turn: bool = False) -> None:
        """`advice`: what the user should do if all connections have been in use for too long.
        `in_turn`: take the least recently used connection first, so that all are known to be good;
        otherwise take the last used one first, so that few are open.
        """
        self._most = most
        self._advice = advice
        self._next = 0 if in_turn else -1
        self._wanted = threading.Condition()
        self._idle: list[Any] = []
        # Connection → the time of its last answer (monotonic).
        self._answered_at: dict[Any, float] = {}
        self._taken = self._busiest = 0
        self._opening = False

    def take(self) -> Any | None:
        """An idle connection, or None: the caller opens a new one."""
        until = time.monotonic() + TAKE_TIMEOUT_SECONDS
        with self._wanted:
            while self._taken >= self._most:
                if not self._wanted.wait(until - time.monotonic()):
                    raise StoreBusy(
                        f"all {self._most} connections of this process to the store have been in "
                        f"use for {TAKE_TIMEOUT_SECONDS:.0f} s; nothing was written. {self._advice}"
                    )
            self._taken += 1
            self._busiest = max(self._busiest, self._taken)
            if not self._idle:
                return None
            connection = self._idle.pop(self._next)
            self._answered_at.pop(
                connection, None
            )  # it is thrown away, or has an answer and comes back
            return connection

    def give_back(self, connection: Any | None) -> None:
        """Return a taken connection, or None if it is of no more use."""
        with self._wanted:
            self._taken -= 1
            self._keep(connection)

    def wants_spare(self) -> bool:
        """Whether a spare connection should be opened: one more than were ever in use at once.

        If so, the caller must call `add_spare` next. Call this when a connection has had an answer:
        while the server does not answer, more connections would not help.
        """
        with self._wanted:
            enough = min(self._busiest + 1, self._most)
            wants = not self._opening and self._taken + len(self._idle) < enough
            self._opening = self._opening or wants
            return wants

    def add_spare(self, connection: Any | None) -> None:
        """Add the spare connection that was opened, or None if that failed."""
        with self._wanted:
            self._opening = False
            self._keep(connection)

    def empty(self, silent_since: float = math.inf) -> list[Any]:
        """Remove the idle connections that have had no answer since then (monotonic)."""
        with self._wanted:
            every, answered_at = self._idle, self._answered_at
            self._idle = [
                connection
                for connection in every
                if answered_at.get(connection, 0.0) >= silent_since
            ]
            self._answered_at = {connection: answered_at[connection] for connection in self._idle}
            return [connection for connection in every if connection not in self._answered_at]

    def _keep(self, connection: Any | None) -> None:
        if connection is not None:
            self._idle.append(connection)
            self._answered_at[connection] = time.monotonic()
        self._wanted.notify()
