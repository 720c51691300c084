"""What a session knows of its host: measured once a second by one worker there, told to all."""

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

# So long a worker that starts waits for the first reading before it goes by reservations alone.
_FIRST_LOOK_MICROSECONDS = 3 * POLL_MICROSECONDS
_LIFETIME = timedelta(microseconds=LIFETIME_MICROSECONDS)
# What was measured while the store did not answer is told later, as much of it as this.
_MOST_UNTOLD = 120
# For tests: where a /proc and a /sys of their own making are.
ROOT_VARIABLE = "LIMPET_TEST_ROOT"


class Measured(NamedTuple):
    """What was measured at one moment: of the host, of sessions, and of callers by session."""

    reading: Reading
    seen: Trees
    callers: dict[str, Use]


class Gatekeeper:
    """Measures the host, or learns what another worker there has measured; says what has room.

    The measuring goes on while the store does not answer: it has a thread to itself, and what is
    asked of the store is asked beside it.
    """

    def __init__(
        self,
        scope: SessionScope,
        catalog: Catalog,
        stop: Callable[[str, Cause], None],
    ) -> None:
        """`stop`: stops a job for that cause."""
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
        self._post_name = ""
        self._post: MonitorLock | None = None
        self._monitor: Monitor | None = None
        self._trees = SessionTrees(self._root)
        self._callers = Callers(self._trees, self._root)
        self._calling: frozenset[str] = frozenset()
        self._holders = Holders(here.smoothing)
        self._history = History()
        self._reading: Reading | None = None
        self._untold: deque[Sample] = deque(maxlen=_MOST_UNTOLD)
        self._began = self._sure_at = now()
        self._warned = ""
        self._failing: set[str] = set()
        self._asking: asyncio.Task[None] | None = None

    def registered(self, epoch: str) -> None:
        """Hear by which name the store knows itself, whatever the URL.

        Whoever uses another store, or another name of the host, is told by a monitor of its own.
        """
        self._post_name = f"{self._capacity_id}-{self.server}-{epoch}"

    def gate(self) -> Gate | None:
        """For a claim: the room on this host, and what tasks weigh; None if all are light.

        Until somebody has had the time to look at the host there is none.
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
        """Look once a second, for as long as the session lives."""
        while True:
            begun = now()
            measured = await self._try("monitor", partial(asyncio.to_thread, self._measure))
            if measured is not None:
                self._untold += self._history.add(measured.reading)
            if self._asking is None or self._asking.done():
                talk = self._talk(measured)
                self._asking = asyncio.get_running_loop().create_task(talk)
            elif measured is not None:
                self._heard(measured.reading)
            self._warn()
            left = (begun + POLL_MICROSECONDS - now()) / 1e6
            await asyncio.sleep(max(left, POLL_MICROSECONDS / 1e7))

    def _measure(self) -> Measured | None:
        """In a thread: a reading, if this worker is the monitor.

        One that has just become it tells nothing before it has seen a second: until then what the
        one before has told is better.
        """
        if self._post is None:
            self._post = MonitorLock(self._post_name)
        if not self._post.is_ours():
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
            ExecutorUse(each.session, each.pid, round(each.cpu, 1), each.memory)
            for each in seen.trees
        )
        return Measured(replace(reading, executor_use=executors), seen, callers)

    async def _talk(self, measured: Measured | None) -> None:
        """With the store: tell what was measured, or ask; then see whether something must go."""
        if measured is not None:
            await self._tell(measured)
        elif self._weights and self._line.failing_since is None:
            await self._try("gate", self._learn)
        if self._relief.must_look and self._line.failing_since is None:
            await self._try("gate", self._relieve)

    async def _tell(self, measured: Measured) -> None:
        """Tell ourselves what was measured, whether or not the store answers, and it too."""
        reading = measured.reading
        if self._line.failing_since is not None:
            self._heard(reading)  # it is left to the renewals to ask
            return
        permits = await self._try("gate", self._permits)
        if permits is not None:
            reading = self._holders.apart(reading, measured.seen, permits, measured.callers)
            self._calling = frozenset(each.session for each in permits if each.is_callers)
        self._heard(reading)
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
        samples = list(self._untold)
        publish = self._line.store.publish_host
        await self._line.do(lambda: publish(self.server, body, _LIFETIME, samples))
        for each in samples:
            if self._untold and self._untold[0] == each:  # unless newer ones took its place
                self._untold.popleft()

    async def _learn(self) -> None:
        hosts = await self._line.do(partial(self._line.store.hosts, self.server))
        published = published_of(hosts[0].body) if hosts else None
        # Of another machine with the same name it would say nothing about this one.
        if published is not None and published.boot == boot_id():
            self._heard(published.reading)

    def _heard(self, reading: Reading) -> None:
        if self._reading is None or reading.at_boot > self._reading.at_boot:
            self._reading = reading
            self._relief.heard(reading)

    async def _relieve(self) -> None:
        """See who may go; all workers of the host must come to the same answer."""
        permits = await self._permits()
        gone = {}
        for job in self._relief.may_go(permits):
            events = await self._line.do(partial(self._line.store.events, job))
            gone[job] = sum(isinstance(each.cause, HostPressed) for each in events)
        self._relief.look(permits, gone)

    def _warn(self) -> None:
        """Say once what is not known, if that lasts and anything depends on it."""
        what = self._assessed().warning if self._weights else ""
        if not what:
            self._sure_at, self._warned = now(), ""
        elif what != self._warned and now() - self._sure_at >= LIFETIME_MICROSECONDS:
            self._warned = what
            log.emit("gate_unsure", what=what, session=self._session)

    async def _try(self, service: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Something that may fail, and is tried again a second later; None, and said once."""
        try:
            answer = await work()
        except Exception as error:  # it is advice: without it jobs still run, by reservations
            if service not in self._failing:
                log.emit("maintenance_failed", service=service, error=error, session=self._session)
            self._failing.add(service)
            return None
        self._failing.discard(service)
        return answer
