"""Connections of one kind, renewals' or others', that lie idle until a verb takes one."""

import math
import threading
import time
from typing import Any

from limpet.domain.errors import StoreBusy

PATIENCE_SECONDS = 30.0


class Idle:
    """As many as may be open at once, in the order in which they were used last."""

    def __init__(self, most: int, advice: str, *, in_turn: bool = False) -> None:
        """`advice`: what to do where all have been in use for too long. `in_turn`: the one
        that was used least recently is used next, so that all are known to be good; else the one
        that was used last, so that few are open.
        """
        self._most = most
        self._advice = advice
        self._next = 0 if in_turn else -1
        self._wanted = threading.Condition()
        self._idle: list[Any] = []
        # Connection → when it had its last answer (monotonic).
        self._heard: dict[Any, float] = {}
        self._taken = self._busiest = 0
        self._opening = False

    def take(self) -> Any | None:
        """One that was used before, or None: open one."""
        until = time.monotonic() + PATIENCE_SECONDS
        with self._wanted:
            while self._taken >= self._most:
                if not self._wanted.wait(until - time.monotonic()):
                    raise StoreBusy(
                        f"all {self._most} connections of this process to the store have been in "
                        f"use for {PATIENCE_SECONDS:.0f} s; nothing was written. {self._advice}"
                    )
            self._taken += 1
            self._busiest = max(self._busiest, self._taken)
            if not self._idle:
                return None
            connection = self._idle.pop(self._next)
            self._heard.pop(connection, None)  # it is thrown away, or has an answer and comes back
            return connection

    def give_back(self, connection: Any | None) -> None:
        """What was taken, or None where it is of no more use."""
        with self._wanted:
            self._taken -= 1
            self._keep(connection)

    def wants_spare(self) -> bool:
        """Whether fewer are open than one more than were ever in use at once; then `add_spare` must
        follow. To be asked when one has had an answer: while none has, more would be no better.
        """
        with self._wanted:
            enough = min(self._busiest + 1, self._most)
            wants = not self._opening and self._taken + len(self._idle) < enough
            self._opening = self._opening or wants
            return wants

    def add_spare(self, connection: Any | None) -> None:
        """What was opened to lie idle, or None where that failed."""
        with self._wanted:
            self._opening = False
            self._keep(connection)

    def empty(self, silent_since: float = math.inf) -> list[Any]:
        """Give up the idle ones that have had no answer since then (monotonic)."""
        with self._wanted:
            every, heard = self._idle, self._heard
            self._idle = [each for each in every if heard.get(each, 0.0) >= silent_since]
            self._heard = {each: heard[each] for each in self._idle}
            return [each for each in every if each not in self._heard]

    def _keep(self, connection: Any | None) -> None:
        if connection is not None:
            self._idle.append(connection)
            self._heard[connection] = time.monotonic()
        self._wanted.notify()
