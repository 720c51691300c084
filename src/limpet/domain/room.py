"""Room on a host: what weights reserve, what is measured, and whether one more fits.

Stores that reckon in SQL or Lua compare as `admit` does, with the whole numbers of a `Room`, of a
`Weight` and of what is `Reserved`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from limpet.domain.size import in_unit, spoken_size
from limpet.domain.weight import Weight

# What cannot be known holds nothing back; a store's doubles are exact up to here.
UNBOUNDED = 1 << 53


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a host has; `memory` is bytes, None if it cannot be known."""

    cores: float
    memory: int | None


@dataclass(frozen=True, slots=True)
class Room:
    """What a host has room for, by reservation and as measured, in whole millicores and bytes.

    `millicores` and `memory`: all that weights may reserve together. `idle_millicores` and
    `free_memory`: what is measured to be left below the thresholds; not above 0, or negative, where
    there is nothing. `unseen`: permits younger than these microseconds are not in the measurement
    yet, so they count on top of it. `cpu_reason` and `memory_reason`: which threshold keeps work
    off, "" if none. `warning`: what could not be measured, "" if all was.
    """

    host: str
    millicores: int
    memory: int
    idle_millicores: int
    free_memory: int
    unseen: int
    cpu_reason: str = ""
    memory_reason: str = ""
    warning: str = ""

    @property
    def reason(self) -> str:
        """What keeps the host from being calm, "" if nothing does."""
        return self.cpu_reason or self.memory_reason

    @property
    def calm(self) -> bool:
        """Whether nothing is over its threshold."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class Reservation:
    """The weight of one permit on a host, and for how many microseconds it is held."""

    weight: Weight
    age: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """The sums of all permits on a host: of all, and of those that no measurement has seen."""

    permits: int = 0
    heavy: int = 0
    millicores: int = 0
    memory: int = 0
    unseen_millicores: int = 0
    unseen_memory: int = 0


NOTHING_RESERVED = Reserved()


def reserved(reservations: Iterable[Reservation], unseen: int) -> Reserved:
    """Add up what is admitted on a host; `unseen` as in `Room`."""
    every = list(reservations)
    young = [each.weight for each in every if each.age < unseen]
    return Reserved(
        permits=len(every),
        heavy=sum(each.weight.heavy for each in every),
        millicores=sum(each.weight.millicores for each in every),
        memory=sum(each.weight.memory for each in every),
        unseen_millicores=sum(each.millicores for each in young),
        unseen_memory=sum(each.memory for each in young),
    )


@dataclass(frozen=True, slots=True)
class Admitted:
    """It may start; `warning` as in `Room`."""

    warning: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """It may not start now, and why; `never`: not on this host, as it is."""

    reason: str
    never: bool = False


def admit(weight: Weight, room: Room, held: Reserved) -> Admitted | Waiting:
    """Whether a job of this weight may start beside what is admitted already.

    Reserved room: all weights together must fit. Measured room: the CPU must be below its
    threshold before it comes, whatever it takes itself, else a job as large as the host would
    never start beside the hum of the machine; its memory must be free, and the headroom with it.
    A heavy one wants nobody weighted beside it, nor lets anybody come.
    """
    host = room.host
    if weight.millicores > room.millicores:
        needs, has = _cores(weight.millicores), _cores(room.millicores)
        return Waiting(f"waiting: {host} never fits: cores {needs}, has {has}", never=True)
    if weight.memory > room.memory:
        needs, has = spoken_size(weight.memory), spoken_size(room.memory)
        return Waiting(f"waiting: {host} never fits: memory {needs}, at most {has}", never=True)
    if held.heavy:
        return Waiting(f"waiting: {host} runs a heavy job")
    if weight.heavy and held.permits:
        return Waiting(f"waiting: {host} runs weighted jobs: {held.permits}")
    if weight.heavy and not room.calm:
        return Waiting(room.reason)
    if held.millicores + weight.millicores > room.millicores:
        taken, every = _cores(held.millicores), _cores(room.millicores)
        return Waiting(f"waiting: {host} reserved {taken} of {every} cores")
    if held.memory + weight.memory > room.memory:
        amount, _ = in_unit(held.memory, room.memory)
        return Waiting(f"waiting: {host} reserved {amount} of {spoken_size(room.memory)}")
    if weight.millicores and held.unseen_millicores >= room.idle_millicores:
        idle, fresh = _cores(room.idle_millicores), _cores(held.unseen_millicores)
        said = f"waiting: {host} CPU {idle} cores idle, {fresh} just admitted"
        return Waiting(room.cpu_reason or said)
    if held.unseen_memory + weight.memory > room.free_memory:
        left = max(0, room.free_memory - held.unseen_memory)
        amount, unit = in_unit(left, weight.memory)
        needs, _ = in_unit(weight.memory, weight.memory)
        said = f"waiting: {host} memory {amount} of {needs} {unit} free"
        return Waiting(room.memory_reason or said)
    return Admitted(room.warning)


def _cores(millicores: int) -> str:
    return f"{millicores / 1000:g}"
