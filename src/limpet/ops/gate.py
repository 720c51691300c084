"""Whether weighted work may begin on a host, as all front ends show it."""

from limpet.domain.assessment import UNBOUNDED
from limpet.domain.permit import PermitRecord, Room, taken
from limpet.domain.reading import Reading
from limpet.gate.assess import Thresholds
from limpet.gate.gauge import LEAST, GivenAway, Look, given_by, waits_for
from limpet.ops.host_answer import (
    GateStatus,
    MemoryAnswer,
    PermitAnswer,
    PressureAnswer,
    RoomAnswer,
    ThresholdAnswer,
)
from limpet.ops.record import iso
from limpet.storage.contract.gating import GateVerbs


def gate_status(store: GateVerbs, look: Look, now: int) -> GateStatus:
    """Whether weighted work may begin on a host; `now` is wall time."""
    given = given_by(store, look.assessment.room.server)
    return status_of(look, given, now, at=look.reading.at)


def status_of(look: Look, given: GivenAway, now: int, at: int) -> GateStatus:
    """The same, of a look that was already taken; `at`: when that was, in wall time."""
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


def permits_of(given: GivenAway) -> tuple[PermitAnswer, ...]:
    """The permits that a host has given."""
    return tuple(_permit(permit) for permit in given.permits)


def reserved_for(given: GivenAway) -> str | None:
    """The caller, or else the job, that a host is reserved for."""
    reserved = given.reserved
    return None if reserved is None else reserved.caller or reserved.holder


def _left(room: Room, given: GivenAway, now: int) -> RoomAnswer:
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


def _permit(permit: PermitRecord) -> PermitAnswer:
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
