"""Permits: what is reserved of a host, and the arithmetic by which every store admits work."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from limpet.domain.weight import Weight

# Longest wait before the head of the line reserves a host.
RESERVE_AFTER_US = 30_000_000
# Lifetime of a reservation that nobody confirms, because its host or its caller is gone. A
# reservation whose confirmation lies further than this in the future is void too: the clock was
# set back since.
RESERVED_FOR_US = 10_000_000


class Room(NamedTuple):
    """What a host can carry, and how much of that was measured to be free.

    `server`: the stable name of the host. `cpu` (thousandths of a core) and `memory` (bytes): what
    all permits may take together. `free_cpu`, `free_memory`: how much more work may begin before
    the host is too busy, by measurement; 0 or less if it is too busy already, None if not known.
    `calm`: heavy work may begin. `unseen`: permits younger than this many microseconds do not show
    in the measurement yet.
    """

    server: str
    cpu: int
    memory: int
    free_cpu: int | None = None
    free_memory: int | None = None
    calm: bool = True
    unseen: int = 0

    def carries(self, weight: Weight) -> bool:
        """Whether the host could carry the weight if nothing else ran there."""
        return weight.millicores <= self.cpu and weight.memory <= self.memory


class Gate(NamedTuple):
    """What a session reports of its host when it claims: the room there, the weights of its tasks.

    `weights`: by task; a task that is not in it is light, and passes by the gate.
    `reserve_after_us`: how long the head of the line waits before it reserves the host.
    """

    room: Room
    weights: Mapping[str, Weight]
    reserve_after_us: int = RESERVE_AFTER_US


class PassedOver(IntEnum):
    """Whether a claim passed over jobs for lack of room on its host; of several the highest.

    `FOR_EVER`: jobs that the host could not carry even with nothing else there. `FOR_NOW`: jobs
    that may begin there once there is room.
    """

    NOTHING = 0
    FOR_EVER = 1
    FOR_NOW = 2


class PermitRecord(NamedTuple):
    """A part of a host's room, given to a holder until the holder ends or gives it back.

    `holder`: the job that runs with the permit, or the session of a caller outside of any worker.
    `what`: the task of that job, or the caller's name. `at`: when the permit was given, wall time
    in microseconds.
    """

    server: str
    holder: str
    session: str
    what: str
    weight: Weight
    at: int

    @property
    def is_callers(self) -> bool:
        """Whether the holder is a caller outside of any worker."""
        return self.holder == self.session


class Reservation(NamedTuple):
    """A host that admits nothing else until the holder of the reservation begins.

    `at`: when it was confirmed last. `holder`: a job, or the session of a caller outside of any
    worker. `caller`: the name of that caller; None for a job.
    """

    server: str
    holder: str
    at: int
    caller: str | None = None

    @property
    def whom(self) -> str:
        """The holder in words."""
        return f"job {self.holder}" if self.caller is None else self.caller


class Taken(NamedTuple):
    """What the permits of a host take together, and how much of it was not measured yet."""

    permits: int = 0
    heavy: int = 0
    cpu: int = 0
    memory: int = 0
    unseen_cpu: int = 0
    unseen_memory: int = 0

    def plus(self, weight: Weight, *, unseen: bool = True) -> "Taken":
        """The sum with one more permit."""
        return Taken(
            self.permits + 1,
            self.heavy + weight.heavy,
            self.cpu + weight.millicores,
            self.memory + weight.memory,
            self.unseen_cpu + (weight.millicores if unseen else 0),
            self.unseen_memory + (weight.memory if unseen else 0),
        )


def helped_by_an_end(room: Room, beside: Taken, weight: Weight) -> bool:
    """Whether a weight that does not fit now may fit once the permits beside it end.

    Without this check a host could be reserved for work that is kept from beginning by processes
    without permits, which nobody can send away.
    """
    if beside.permits == 0 or not room.carries(weight):
        return False
    # A permit that the measurement does not show yet frees nothing measurable when it ends.
    cpu, memory = beside.cpu - beside.unseen_cpu, beside.memory - beside.unseen_memory
    if weight.cpu and room.free_cpu is not None and room.free_cpu + cpu <= 0:
        return False
    return room.free_memory is None or room.free_memory + memory >= weight.memory


def taken(permits: Iterable[PermitRecord], now: int, unseen_us: int) -> Taken:
    """Add up permits; `unseen_us` is `Room.unseen`."""
    total = Taken()
    for permit in permits:
        total = total.plus(permit.weight, unseen=permit.at > now - unseen_us)
    return total


def fits(room: Room, beside: Taken, weight: Weight) -> bool:
    """Whether one more weight may begin: the permits fit the host, and the measurement allows it.

    Measured CPU is the use by others: a job for all cores begins on a host whose cores are free
    enough, though it will fill them. Measured memory must be free in full for the job.
    """
    if beside.heavy or not room.carries(weight):
        return False
    if weight.heavy and (beside.permits or not room.calm):
        return False
    if beside.cpu + weight.millicores > room.cpu or beside.memory + weight.memory > room.memory:
        return False
    if weight.cpu and room.free_cpu is not None and beside.unseen_cpu >= room.free_cpu:
        return False
    return not (
        weight.memory
        and room.free_memory is not None
        and beside.unseen_memory + weight.memory > room.free_memory
    )
