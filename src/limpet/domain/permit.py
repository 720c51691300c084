"""Permits: what is reserved of a host, and the arithmetic by which every store admits work."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from limpet.domain.weight import Weight

# So long the first in line is passed over before it reserves a host for itself.
PATIENCE = 30_000_000
# So long a reservation lasts that nobody confirms, because its host or whoever asked there is gone;
# and so much later than now it may have been confirmed, else the clock was set back since.
RESERVED_FOR = 10_000_000


class Room(NamedTuple):
    """What a host can carry, and how much of that was measured to be free.

    `server`: the stable name of the host. `cpu` (thousandths of a core) and `memory` (bytes): what
    all permits may take together. `free_cpu`, `free_memory`: how much more work may begin before
    the host is too busy, as measured; nothing or less where it is; None where that is not known.
    `calm`: heavy work may begin. `unseen`: permits younger than that, in microseconds, do not show
    in what was measured.
    """

    server: str
    cpu: int
    memory: int
    free_cpu: int | None = None
    free_memory: int | None = None
    calm: bool = True
    unseen: int = 0

    def carries(self, weight: Weight) -> bool:
        """Whether it could, with nothing else there."""
        return weight.millicores <= self.cpu and weight.memory <= self.memory


class Gate(NamedTuple):
    """What a session says of its host when it claims: the room there, what its tasks weigh.

    `weights`: of the tasks that have one; all others are light, and pass by the gate.
    """

    room: Room
    weights: Mapping[str, Weight]
    patience: int = PATIENCE


class PassedOver(IntEnum):
    """What a claim left where it was because its host had no room for it; of several the highest.

    `FOR_EVER`: what that host could not carry with nothing else there. `FOR_NOW`: what may begin
    there once there is room.
    """

    NOTHING = 0
    FOR_EVER = 1
    FOR_NOW = 2


class PermitRecord(NamedTuple):
    """A reservation of some of a host's capacity, for as long as its holder has it.

    `holder`: the job that runs with it, or the session of a caller outside of any worker. `what`:
    the task of that job, or what the caller calls itself. `at`: wall time in microseconds.
    """

    server: str
    holder: str
    session: str
    what: str
    weight: Weight
    at: int

    @property
    def is_callers(self) -> bool:
        """Whether its holder is outside of any worker."""
        return self.holder == self.session


class Reservation(NamedTuple):
    """A host on which nothing else is admitted until its holder begins; confirmed at `at`.

    `holder`: a job, or the session of a caller outside of any worker. `caller`: what that calls
    itself; None for a job.
    """

    server: str
    holder: str
    at: int
    caller: str | None = None

    @property
    def whom(self) -> str:
        """For whom it is, in words."""
        return f"job {self.holder}" if self.caller is None else self.caller


class Taken(NamedTuple):
    """What the permits of a host take together, and of that what was not measured yet."""

    permits: int = 0
    heavy: int = 0
    cpu: int = 0
    memory: int = 0
    unseen_cpu: int = 0
    unseen_memory: int = 0

    def plus(self, weight: Weight, *, unseen: bool = True) -> "Taken":
        """With one more permit."""
        return Taken(
            self.permits + 1,
            self.heavy + weight.heavy,
            self.cpu + weight.millicores,
            self.memory + weight.memory,
            self.unseen_cpu + (weight.millicores if unseen else 0),
            self.unseen_memory + (weight.memory if unseen else 0),
        )


def helped_by_an_end(room: Room, beside: Taken, weight: Weight) -> bool:
    """Whether what does not fit might once the permits of others are gone: else a host would be
    reserved for something that others, whom nobody can send away, keep from beginning.
    """
    if beside.permits == 0 or not room.carries(weight):
        return False
    # What does not show as taken is not given back either.
    cpu, memory = beside.cpu - beside.unseen_cpu, beside.memory - beside.unseen_memory
    if weight.cpu and room.free_cpu is not None and room.free_cpu + cpu <= 0:
        return False
    return room.free_memory is None or room.free_memory + memory >= weight.memory


def taken(permits: Iterable[PermitRecord], now: int, unseen: int) -> Taken:
    """Add up permits; `unseen` as in `Room`."""
    total = Taken()
    for each in permits:
        total = total.plus(each.weight, unseen=each.at > now - unseen)
    return total


def fits(room: Room, beside: Taken, weight: Weight) -> bool:
    """Whether one more may begin: what is reserved fits the host, and what is measured lets it.

    Measured processor time is that of others: a job for all cores begins on a host whose cores are
    free enough, though it will fill them. Measured memory must be there for it.
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
