"""What a session knows about its host, which one of its workers measures once a second for all."""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from limpet import log
from limpet.domain.assessment import Assessment
from limpet.domain.cause import Cause, HostPressed
from limpet.domain.clock import SystemClock
from limpet.domain.host import Sample
from limpet.domain.permit import Gate, PermitRecord
from limpet.domain.reading import ExecutorUse, Reading, Use
from limpet.gate.assess import LIFETIME_MICROSECONDS, POLL_MICROSECONDS, assess
from limpet.gate.identity import capacity_id
from limpet.gate.measure.callers import Callers
from limpet.gate.measure.capacity import bounds_of_self
from limpet.gate.measure.history import History
from limpet.gate.measure.holders import Holders
from limpet.gate.measure.monitor import Monitor
from limpet.gate.measure.trees import SessionTrees, Trees
from limpet.gate.monitor_lock import MonitorLock
from limpet.gate.published import Published, published_of, written
from limpet.gate.this_host import here_by
from limpet.host.boot import boot_id
from limpet.worker.supervisor.pressure_relief import Relief
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.wire.catalog import Catalog
from limpet.worker.wire.page import now

# How long a worker that starts waits for a first reading before it goes by reservations alone.
_FIRST_LOOK_MICROSECONDS = 3 * POLL_MICROSECONDS
_LIFETIME = timedelta(microseconds=LIFETIME_MICROSECONDS)
# How many samples are kept while the store does not answer, to be published later.
_MOST_UNPUBLISHED = 120
# Tests set this variable to a folder with a /proc and a /sys of their own.
ROOT_VARIABLE = "LIMPET_TEST_ROOT"


class Measured(NamedTuple):
    """What was measured at one moment: of the host, of sessions, and of callers by session."""

    reading: Reading
    seen: Trees
    callers: dict[str, Use]


class Gatekeeper:
    """Measures the host, or reads what another worker there has measured, and knows its room.

    Measuring goes on while the store does not answer: it runs in a thread, and the calls to the
    store run beside it.
    """

    def __init__(
        self,
        scope: SessionScope,
        catalog: Catalog,
        stop: Callable[[str, Cause], None],
    ) -> None:
        """`stop`: stops a job for a cause."""
        self._root = os.environ.get(ROOT_VARIABLE, "/")
        within = bounds_of_self(self._root)
        here = here_by(scope.plan.settings, within, self._root)
        self.server = here.server
        self._plan = scope.plan
        self._session = scope.session
        self._line = scope.line
        self._capacity = within.capacity
        self._thresholds = here.thresholds
        self._smoothing = here.smoothing
        self._weights = catalog.weights()
        giving_way = catalog.giving_way()
        self._relief = Relief(scope.session, self.server, giving_way, self._thresholds, stop)
        self._capacity_id = capacity_id(within)
        self._monitor_lock_name = ""
        self._monitor_lock: MonitorLock | None = None
        self._monitor: Monitor | None = None
        self._trees = SessionTrees(self._root)
        self._callers = Callers(self._trees, self._root)
        self._calling: frozenset[str] = frozenset()
        self._holders = Holders(here.smoothing)
        self._history = History()
        self._reading: Reading | None = None
        self._unpublished: deque[Sample] = deque(maxlen=_MOST_UNPUBLISHED)
        self._began = self._sure_at = now()
        self._warned = ""
        self._failing: set[str] = set()
        self._syncing: asyncio.Task[None] | None = None

    def registered(self, epoch: str) -> None:
        """The session was registered; `epoch` identifies the store, whatever its URL.

        The workers of another store, or of another name of this host, have a monitor of their own.
        """
        self._monitor_lock_name = f"{self._capacity_id}-{self.server}-{epoch}"

    def gate(self) -> Gate | None:
        """For a claim: the room on this host and the tasks' weights; None if no task has a weight.

        There is no room until the first reading, or until the wait for it is over.
        """
        if not self._weights:
            return None
        if self._reading is None and now() - self._began < _FIRST_LOOK_MICROSECONDS:
            unseen = self._assessed().room._replace(free_cpu=0, free_memory=0, calm=False)
            return Gate(unseen, self._weights)
        return Gate(self._assessed().room, self._weights)

    def _assessed(self) -> Assessment:
        return assess(self.server, self._reading, self._capacity, now(), self._thresholds)

    async def run(self) -> None:
        """Measure or read once a second, for as long as the session lives."""
        while True:
            began_at = now()
            measured = await self._try("monitor", partial(asyncio.to_thread, self._measure))
            if measured is not None:
                self._unpublished += self._history.add(measured.reading)
            if self._syncing is None or self._syncing.done():
                sync = self._sync(measured)
                self._syncing = asyncio.get_running_loop().create_task(sync)
            elif measured is not None:
                self._take(measured.reading)
            self._warn()
            left_seconds = (began_at + POLL_MICROSECONDS - now()) / 1e6
            await asyncio.sleep(max(left_seconds, POLL_MICROSECONDS / 1e7))

    def _measure(self) -> Measured | None:
        """A reading, if this worker is the monitor; called in a thread.

        A new monitor publishes nothing before it has measured for a second: until then the last
        reading of the monitor before it is better.
        """
        if self._monitor_lock is None:
            self._monitor_lock = MonitorLock(self._monitor_lock_name)
        if not self._monitor_lock.is_ours():
            return None
        if self._monitor is None:
            self._monitor = Monitor(
                self.server, SystemClock(), root=self._root, smoothing=self._smoothing
            )
            self._trees.sample(now())
            log.emit("gate_measures", server=self.server, session=self._session)
            return None
        reading = self._monitor.poll()
        seen = self._trees.sample(reading.at_boot)
        callers = self._callers.sample(self._calling - seen.sessions, reading.at_boot)
        executors = tuple(
            ExecutorUse(tree.session, tree.pid, round(tree.cpu_percent, 1), tree.memory_bytes)
            for tree in seen.trees
        )
        return Measured(replace(reading, executor_use=executors), seen, callers)

    async def _sync(self, measured: Measured | None) -> None:
        """Publish what was measured, or read it; then see whether an attempt must give way."""
        if measured is not None:
            await self._report(measured)
        elif self._weights and self._line.failing_since is None:
            await self._try("gate", self._learn)
        if self._relief.must_look and self._line.failing_since is None:
            await self._try("gate", self._relieve)

    async def _report(self, measured: Measured) -> None:
        """Use the reading here, whether or not the store answers, and publish it in the store."""
        reading = measured.reading
        if self._line.failing_since is not None:
            self._take(reading)  # the renewals will find when the store answers again
            return
        permits = await self._try("gate", self._permits)
        if permits is not None:
            reading = self._holders.apart(reading, measured.seen, permits, measured.callers)
            self._calling = frozenset(permit.session for permit in permits if permit.is_callers)
        self._take(reading)
        if permits is not None:
            await self._try("gate", partial(self._publish, reading))

    async def _permits(self) -> tuple[PermitRecord, ...]:
        permits = self._line.store.permits
        found: tuple[PermitRecord, ...] = await self._line.do(lambda: permits(self.server))
        return found

    async def _publish(self, reading: Reading) -> None:
        body = written(
            Published(
                reading,
                self._capacity,
                self._thresholds,
                boot_id(),
                self._plan.name,
                self._session,
            )
        )
        samples = list(self._unpublished)
        publish = self._line.store.publish_host
        await self._line.do(lambda: publish(self.server, body, _LIFETIME, samples))
        for sample in samples:
            # While this one was published, newer samples may have pushed it out.
            if self._unpublished and self._unpublished[0] == sample:
                self._unpublished.popleft()

    async def _learn(self) -> None:
        hosts = await self._line.do(partial(self._line.store.hosts, self.server))
        published = published_of(hosts[0].body) if hosts else None
        # A reading of another machine with the same name is not about this one.
        if published is not None and published.boot == boot_id():
            self._take(published.reading)

    def _take(self, reading: Reading) -> None:
        if self._reading is None or reading.at_boot > self._reading.at_boot:
            self._reading = reading
            self._relief.add(reading)

    async def _relieve(self) -> None:
        """See which attempt gives way; all workers of the host must come to the same answer."""
        permits = await self._permits()
        yields = {}
        for job in self._relief.may_go(permits):
            events = await self._line.do(partial(self._line.store.events, job))
            yields[job] = sum(isinstance(event.cause, HostPressed) for event in events)
        self._relief.look(permits, yields)

    def _warn(self) -> None:
        """Log once what is not known of the host, if that lasts and a task has a weight."""
        what = self._assessed().warning if self._weights else ""
        if not what:
            self._sure_at, self._warned = now(), ""
        elif what != self._warned and now() - self._sure_at >= LIFETIME_MICROSECONDS:
            self._warned = what
            log.emit("gate_unsure", what=what, session=self._session)

    async def _try(self, service: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run work; None if it fails, which is logged once. It is tried again a second later."""
        try:
            answer = await work()
        except Exception as error:  # without readings jobs still run, by reservations
            if service not in self._failing:
                log.emit("maintenance_failed", service=service, error=error, session=self._session)
            self._failing.add(service)
            return None
        self._failing.discard(service)
        return answer
