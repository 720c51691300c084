"""A host whose monitor says what the test wants, again and again as a monitor does."""

import threading
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType

from limpet.domain.assessment import Capacity
from limpet.domain.clock import SystemClock
from limpet.domain.reading import Reading
from limpet.gate.assess import Thresholds
from limpet.gate.published import Published, written
from limpet.host.boot import boot_id
from limpet.storage.contract.store import Store

GIB = 1 << 30
_EVERY_SECONDS = 0.5
_LIFETIME = timedelta(seconds=10)


class Measured:
    """Publishes readings of a server: `cores` of them, `busy` percent of all in use."""

    def __init__(self, store: Store, server: str, cores: float = 3.0, busy: float = 0.0) -> None:
        self._store = store
        self._server = server
        self._cores = cores
        self._busy = busy
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._clock = SystemClock()

    def __enter__(self) -> "Measured":
        self.say(self._busy)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def say(self, busy: float) -> None:
        """From now on this share of the CPU is in use."""
        self._busy = busy
        reading = Reading(
            host=self._server,
            at=self._clock.wall(),
            at_boot=self._clock.boot(),
            cores=self._cores,
            source="a test",
            cpu_raw=busy * self._cores,
            cpu_ema=busy * self._cores,
            memory_total=8 * GIB,
            memory_free=8 * GIB,
        )
        capacity = Capacity(self._cores, 8 * GIB)
        told = Published(reading, capacity, Thresholds(), boot_id(), "a-worker", "a-session")
        self._store.publish_host(self._server, written(told), _LIFETIME)

    def _run(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            self.say(self._busy)


Measure = Callable[..., Measured]
