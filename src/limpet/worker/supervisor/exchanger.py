"""The thread that exchanges with the store: on request, or by itself when the store rings.

A worker that has no outcomes to send and can take more jobs leaves an exchange standing by. When
the bell rings, the thread makes that exchange at once. A detour over the event loop would cost a
tenth of a pick-up.
"""

import asyncio
import select
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from limpet.storage.contract.bell import Bell
from limpet.storage.pipe_bell import PipeBell

_NOW = timedelta(0)


class Exchange:
    """An exchange that is requested or stands by, and its answer."""

    def __init__(self, make: Callable[[], Any], begins: Callable[[], None] = lambda: None) -> None:
        """`begins`: called in the thread, just before the exchange is made."""
        self._make = make
        self._begins = begins
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self._loop.create_future()

    def run(self) -> None:
        """Make the exchange; called in the thread."""
        self._begins()
        try:
            answer, error = self._make(), None
        except BaseException as raised:
            answer, error = None, raised
        self._loop.call_soon_threadsafe(self._deliver, answer, error)

    def _deliver(self, answer: Any, error: BaseException | None) -> None:
        if self.answer.cancelled():
            return
        if error is None:
            self.answer.set_result(answer)
        else:
            self.answer.set_exception(error)


class Exchanger:
    """Makes one exchange at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requested: Exchange | None = None
        self._standing_by: Exchange | None = None
        self._nudge = PipeBell()
        self._bell: Bell | None = None
        self._rang: Callable[[], object] = lambda: None
        self._poll = select.poll()
        self._poll.register(self._nudge.fileno(), select.POLLIN)
        threading.Thread(target=self._serve, name="limpet-exchange", daemon=True).start()

    def listen(self, bell: Bell, rang: Callable[[], None]) -> None:
        """Listen to the bell from now on; `rang`: called when it rings and nothing stands by."""
        loop = asyncio.get_running_loop()
        self._rang = lambda: loop.call_soon_threadsafe(rang)
        self._bell = bell
        self._poll.register(bell.fileno(), select.POLLIN)
        self._nudge.ring()  # a poll that has begun does not see the new descriptor

    def make(self, exchange: Exchange) -> None:
        """Request that the exchange is made now."""
        with self._lock:
            self._requested = exchange
        self._nudge.ring()

    def stand_by(self, exchange: Exchange) -> None:
        """Request that the exchange is made when the bell rings, unless it is withdrawn before."""
        with self._lock:
            self._standing_by = exchange

    def withdraw(self) -> bool:
        """Withdraw the exchange that stands by; False if it has begun, or none stands by."""
        with self._lock:
            stood_by, self._standing_by = self._standing_by, None
            return stood_by is not None

    def _serve(self) -> None:
        while True:
            self._poll.poll()
            self._nudge.wait(_NOW)
            rang = self._bell is not None and self._bell.wait(_NOW)
            with self._lock:
                exchange, self._requested = self._requested, None
                if exchange is None and rang:
                    exchange, self._standing_by = self._standing_by, None
                    rang = exchange is None
            if exchange is not None:
                exchange.run()
            if rang:
                self._rang()
