"""What is known of a host and what it has given away: whether work may begin there, and why not."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from limpet.domain.assessment import Assessment, Capacity, Waiting, admit
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.host import Host
from limpet.domain.permit import PermitRecord, Reservation, taken
from limpet.domain.reading import Reading
from limpet.domain.weight import Weight
from limpet.gate.assess import LIFETIME_MICROSECONDS, POLL_MICROSECONDS, Thresholds, assess
from limpet.gate.measure.monitor import Monitor
from limpet.gate.published import assess_published, published_of
from limpet.gate.this_host import ThisHost
from limpet.host.boot import boot_id
from limpet.storage.contract.gating import GateVerbs

# The least that any weighted job takes.
LEAST = Weight(cpu=0.001)


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of a host at one moment; `measured_here`: by this process, not by a monitor."""

    reading: Reading
    assessment: Assessment
    thresholds: Thresholds
    measured_here: bool = False

    @property
    def source(self) -> str:
        """Where the numbers come from."""
        if not self.measured_here:
            return self.reading.source
        return f"measured here, as no monitor reports on this server; {self.reading.source}"


class Gauge:
    """Looks at a host: takes what its monitor has published where that is fresh, else measures.

    For one thread.
    """

    def __init__(
        self,
        store: GateVerbs,
        here: ThisHost,
        clock: Clock | None = None,
        first_seconds: float = 1.0,
    ) -> None:
        """`first_seconds`: how long the CPU is measured before the first answer."""
        self._store = store
        self._here = here
        self._clock = clock or SystemClock()
        self._first_seconds = first_seconds
        self._monitor: Monitor | None = None
        self._measured: Reading | None = None

    def look(self) -> Look:
        """Look now; the first call may block for `first_seconds` to measure."""
        for host in self._store.hosts(self._here.server):
            if look := published_look(host, self._clock):
                return look
        reading, here = self._measure(), self._here
        capacity = Capacity(reading.cores, reading.memory_total)
        judged = assess(here.server, reading, capacity, self._clock.boot(), here.thresholds)
        return Look(reading, judged, here.thresholds, measured_here=True)

    def _measure(self) -> Reading:
        if self._monitor is None:
            self._monitor = Monitor(self._here.server, self._clock, smoothing=self._here.smoothing)
        last, now = self._measured, self._clock.boot()
        if last is None or now - last.at_boot >= LIFETIME_MICROSECONDS:
            self._monitor.poll()  # its CPU is the average since a poll long ago: not used
            time.sleep(self._first_seconds)
        elif now - last.at_boot < POLL_MICROSECONDS:
            return last  # the average is made for polls a second apart
        self._measured = self._monitor.poll()
        return self._measured

    def close(self) -> None:
        """Close the files of the monitor."""
        if self._monitor is not None:
            self._monitor.close()


def published_look(host: Host, clock: Clock) -> Look | None:
    """What the monitor of a host has published; None if that is old, or cannot be read."""
    published = published_of(host.body)
    now = clock.boot()
    # The age of a reading from another machine is not known here: the store drops old rows.
    if published is None or (
        published.boot == boot_id() and now - published.reading.at_boot >= LIFETIME_MICROSECONDS
    ):
        return None
    judged = assess_published(host, clock.wall(), boot_id(), now)
    return None if judged is None else Look(published.reading, judged, published.thresholds)


@dataclass(frozen=True, slots=True)
class GivenAway:
    """What a host has given away: its permits and its reservation."""

    permits: tuple[PermitRecord, ...] = ()
    reserved: Reservation | None = None


def given_by(store: GateVerbs, server: str) -> GivenAway:
    """What one host has given away."""
    return all_given(store.permits(server), store.reservations()).get(server, GivenAway())


def all_given(
    permits: Iterable[PermitRecord], reservations: Iterable[Reservation]
) -> dict[str, GivenAway]:
    """What each host has given away, by server."""
    reserved = {reservation.server: reservation for reservation in reservations}
    held: dict[str, list[PermitRecord]] = {server: [] for server in reserved}
    for permit in permits:
        held.setdefault(permit.server, []).append(permit)
    return {
        server: GivenAway(tuple(on_server), reserved.get(server))
        for server, on_server in held.items()
    }


def waits_for(
    assessment: Assessment, given: GivenAway, weight: Weight, now: int, holder: str | None = None
) -> Waiting | None:
    """What keeps this weight off a host, in words; None if nothing does now.

    No other code outside of a store decides this. `now` is wall time. `holder`: the job, or the
    session of the caller, that wants to begin, as the host may be reserved for it; None: anybody.
    """
    room, reserved = assessment.room, given.reserved
    verdict = admit(weight, assessment, taken(given.permits, now, room.unseen))
    never = isinstance(verdict, Waiting) and verdict.never
    if reserved is not None and reserved.holder != holder and not never:
        return Waiting(f"waiting: {room.server} is reserved for {reserved.whom}")
    return verdict if isinstance(verdict, Waiting) else None
