"""The assessment of a host: what it has room for, and why a job may not begin there."""

from dataclasses import dataclass

from limpet.domain.permit import Room, Taken, fits
from limpet.domain.size import in_unit, spoken_size
from limpet.domain.weight import Weight

# Stands for a limit that cannot be known, which holds nothing back; doubles are exact up to here.
UNBOUNDED = 1 << 53


@dataclass(frozen=True, slots=True)
class Capacity:
    """The cores and memory of a host; `memory` is bytes, None if it cannot be known."""

    cores: float
    memory: int | None


@dataclass(frozen=True, slots=True)
class Assessment:
    """Room on a host, and in words what keeps work off it.

    `cpu_reason`, `memory_reason` and, for heavy work, `disk_reason`: the threshold that keeps work
    off, "" if none does. `warning`: what could not be measured, "" if all was.
    """

    room: Room
    cpu_reason: str = ""
    memory_reason: str = ""
    disk_reason: str = ""
    warning: str = ""

    @property
    def reason(self) -> str:
        """Why the host is not calm, "" if it is."""
        return self.cpu_reason or self.memory_reason or self.disk_reason


@dataclass(frozen=True, slots=True)
class Admitted:
    """The job may begin; `warning` as in `Assessment`."""

    warning: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The job may not begin now, and why. `never`: this host is too small for it."""

    reason: str
    never: bool = False


def admit(weight: Weight, host: Assessment, taken: Taken) -> Admitted | Waiting:
    """Whether a job of this weight may begin beside the permits already given, by `fits`."""
    if fits(host.room, taken, weight):
        return Admitted(host.warning)
    reason = _impossible(weight, host.room)
    if reason:
        return Waiting(f"waiting: {host.room.server} is too small: {reason}", never=True)
    return Waiting(_reserved(weight, host, taken) or _measured(weight, host, taken))


def _impossible(weight: Weight, room: Room) -> str:
    if weight.millicores > room.cpu:
        return f"{_cores(weight.millicores)} cores needed, has {_cores(room.cpu)}"
    if weight.memory > room.memory:
        return f"{spoken_size(weight.memory)} needed, gives at most {spoken_size(room.memory)}"
    return ""


def _reserved(weight: Weight, host: Assessment, taken: Taken) -> str:
    room = host.room
    if taken.heavy:
        return f"waiting: {room.server} has heavy work"
    if weight.heavy and taken.permits:
        return f"waiting: {room.server} has other weighted work, permits: {taken.permits}"
    if weight.heavy and not room.calm:
        return host.reason
    if taken.cpu + weight.millicores > room.cpu:
        of = f"{_cores(taken.cpu)} of {_cores(room.cpu)} cores"
        # A weight of one millicore is a probe: the need for it would be no news.
        needed = f", {_cores(weight.millicores)} needed" if weight.millicores > 1 else ""
        return f"waiting: {room.server} reserved {of}{needed}"
    if taken.memory + weight.memory > room.memory:
        amount, _ = in_unit(taken.memory, room.memory)
        of = f"{amount} of {spoken_size(room.memory)}"
        return f"waiting: {room.server} reserved {of}, {spoken_size(weight.memory)} needed"
    return ""


def _measured(weight: Weight, host: Assessment, taken: Taken) -> str:
    room = host.room
    free_cpu, free_memory = room.free_cpu, room.free_memory or 0
    if weight.cpu and free_cpu is not None and taken.unseen_cpu >= free_cpu:
        idle, fresh = _cores(free_cpu), _cores(taken.unseen_cpu)
        reason = f"waiting: {room.server} CPU {idle} cores left by others, {fresh} admitted already"
        return host.cpu_reason or reason
    amount, unit = in_unit(max(0, free_memory - taken.unseen_memory), weight.memory)
    reason = f"memory {amount} {unit} free, {spoken_size(weight.memory)} needed"
    return host.memory_reason or f"waiting: {room.server} {reason}"


def _cores(millicores: int) -> str:
    return f"{millicores / 1000:g}"
