"""What a host has room for, and why something may not begin there."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from limpet.domain.assessment import UNBOUNDED, Assessment, Capacity, Waiting, admit
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.host import Host
from limpet.domain.permit import Permit, Reservation, Room, taken
from limpet.domain.reading import Reading
from limpet.domain.weight import Weight
from limpet.host.boot import boot_id
from limpet.host.gate import LIFETIME_MICROSECONDS, POLL_MICROSECONDS, Thresholds, assess
from limpet.host.here import Here
from limpet.host.monitor import Monitor
from limpet.host.wire import assess_published, published_of
from limpet.ops.host_answer import (
    GateStatus,
    MemoryAnswer,
    PermitAnswer,
    PressureAnswer,
    RoomAnswer,
    ThresholdAnswer,
)
from limpet.ops.record import iso
from limpet.storage.gating import GateVerbs

# What any weighted job takes at the least.
LEAST = Weight(cpu=0.001)


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of a host at one moment; `measured_here`: nobody has published it."""

    reading: Reading
    assessment: Assessment
    thresholds: Thresholds
    measured_here: bool = False

    @property
    def source(self) -> str:
        """Where the numbers come from."""
        if not self.measured_here:
            return self.reading.source
        return f"measured here, as no monitor tells of this server; {self.reading.source}"


class Gauge:
    """Looks at a host: what its monitor has published where that is fresh, else with its own eyes.

    For one thread.
    """

    def __init__(
        self, store: GateVerbs, here: Here, clock: Clock | None = None, first: float = 1.0
    ) -> None:
        """`first`: for how many seconds it measures before it knows the CPU."""
        self._store = store
        self._here = here
        self._clock = clock or SystemClock()
        self._first = first
        self._monitor: Monitor | None = None
        self._measured: Reading | None = None

    def look(self) -> Look:
        """Look now; the first time that may take as long as it must measure."""
        for host in self._store.hosts(self._here.server):
            if look := told_by(host, self._clock):
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
            self._monitor.poll()  # of which the CPU is that of a time long past
            time.sleep(self._first)
        elif now - last.at_boot < POLL_MICROSECONDS:
            return last  # the average is one of seconds
        self._measured = self._monitor.poll()
        return self._measured

    def close(self) -> None:
        """Let go of what it looks at."""
        if self._monitor is not None:
            self._monitor.close()


def told_by(host: Host, clock: Clock) -> Look | None:
    """What the monitor of a host tells of it; None if that is old, or cannot be read."""
    told = published_of(host.body)
    now = clock.boot()
    # On another machine the store decides how long it holds.
    if told is None or (
        told.boot == boot_id() and now - told.reading.at_boot >= LIFETIME_MICROSECONDS
    ):
        return None
    judged = assess_published(host, clock.wall(), boot_id(), now)
    return None if judged is None else Look(told.reading, judged, told.thresholds)


@dataclass(frozen=True, slots=True)
class Given:
    """What a host has given away: its permits, and for whom it is reserved."""

    permits: tuple[Permit, ...] = ()
    reserved: Reservation | None = None


def given_by(store: GateVerbs, server: str) -> Given:
    """What one host has given away."""
    return all_given(store.permits(server), store.reservations()).get(server, Given())


def all_given(permits: Iterable[Permit], reservations: Iterable[Reservation]) -> dict[str, Given]:
    """What each host has given away, by server."""
    reserved = {each.server: each for each in reservations}
    held: dict[str, list[Permit]] = {server: [] for server in reserved}
    for each in permits:
        held.setdefault(each.server, []).append(each)
    return {server: Given(tuple(them), reserved.get(server)) for server, them in held.items()}


def waits_for(
    assessment: Assessment, given: Given, weight: Weight, now: int, holder: str | None = None
) -> Waiting | None:
    """What keeps this weight off a host, in words; None if nothing does by now.

    The only judgement of that outside of a store. `now` is wall time. `holder`: the job, or the
    session of a caller, for whom the host may be reserved; None for anybody.
    """
    room, reserved = assessment.room, given.reserved
    verdict = admit(weight, assessment, taken(given.permits, now, room.unseen))
    never = isinstance(verdict, Waiting) and verdict.never
    if reserved is not None and reserved.holder != holder and not never:
        return Waiting(f"waiting: {room.server} is reserved for {reserved.whom}")
    return verdict if isinstance(verdict, Waiting) else None


def gate_status(store: GateVerbs, look: Look, now: int) -> GateStatus:
    """Whether weighted work may begin on a host; `now` is wall time."""
    given = given_by(store, look.assessment.room.server)
    return status_of(look, given, now, at=look.reading.at)


def status_of(look: Look, given: Given, now: int, at: int) -> GateStatus:
    """The same, of what was looked at; `at`: when that was."""
    waiting = waits_for(look.assessment, given, LEAST, now)
    reading, room = look.reading, look.assessment.room
    pressure, limits = reading.pressure, look.thresholds
    return GateStatus(
        server=room.server,
        ready=waiting is None,
        reason="" if waiting is None else waiting.reason,
        warning=look.assessment.warning,
        cores=reading.cores,
        cpu_raw_percent=_share(reading.cpu_raw, reading.cores),
        cpu_ema_percent=_share(reading.cpu_ema, reading.cores),
        cpu_effective_percent=_share(reading.cpu_effective, reading.cores),
        cpu_others_percent=_share(reading.cpu_others, reading.cores),
        throttled_percent=reading.throttled,
        memory=MemoryAnswer(
            total_bytes=reading.memory_total,
            free_bytes=reading.memory_free,
            used_percent=_used(reading),
        ),
        pressure=PressureAnswer(
            cpu_percent=pressure.cpu, memory_percent=pressure.memory, io_percent=pressure.io
        ),
        load=reading.load,
        disk_free_bytes=reading.disk_free,
        threshold=_threshold(limits),
        room=RoomAnswer(cores=room.cpu / 1000, memory_bytes=room.memory),
        left=_left(room, given, now) if waiting is None else RoomAnswer(cores=0.0, memory_bytes=0),
        source=look.source,
        permits=permits_of(given),
        reserved_for=reserved_for(given),
        at=iso(at),
    )


def permits_of(given: Given) -> tuple[PermitAnswer, ...]:
    """The permits that a host has given."""
    return tuple(_permit(each) for each in given.permits)


def reserved_for(given: Given) -> str | None:
    """The caller, or else the job, for whom a host is reserved."""
    reserved = given.reserved
    return None if reserved is None else reserved.caller or reserved.holder


def _left(room: Room, given: Given, now: int) -> RoomAnswer:
    beside = taken(given.permits, now, room.unseen)
    memory = room.memory - beside.memory
    if room.free_memory is not None:
        memory = min(memory, room.free_memory - beside.unseen_memory)
    known = room.memory < UNBOUNDED
    return RoomAnswer(
        cores=max(0, room.cpu - beside.cpu) / 1000,
        memory_bytes=max(0, memory) if known else None,
    )


def _threshold(limits: Thresholds) -> ThresholdAnswer:
    return ThresholdAnswer(
        cpu_percent=limits.cpu,
        memory_percent=limits.memory,
        pressure_percent=limits.pressure,
        io_percent=limits.io,
    )


def _permit(permit: Permit) -> PermitAnswer:
    weight = permit.weight
    return PermitAnswer(
        holder=permit.holder,
        session=permit.session,
        what=permit.what,
        cores=weight.cpu,
        memory_bytes=weight.memory,
        heavy=weight.heavy,
        at=iso(permit.at),
    )


def _share(cpu: float | None, cores: float) -> float | None:
    return None if cpu is None else round(cpu / cores, 1)


def _used(reading: Reading) -> float | None:
    used, total = reading.memory_used, reading.memory_total
    return None if used is None or not total else round(100 * used / total, 1)
