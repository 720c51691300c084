"""Permits: what hosts have given away of themselves; see `storage.gating`."""

from typing import Any

from limpet.domain.permit import RESERVED_FOR, Gate, PermitRecord, Reservation, Room
from limpet.domain.weight import Weight
from limpet.storage.redis.link import RedisLink
from limpet.storage.redis.packed import unpacked


def weight_told(weight: Weight) -> tuple[int, int, bool]:
    """A weight as the scripts read it."""
    return weight.millicores, weight.memory, weight.heavy


def room_told(room: Room) -> tuple[Any, ...]:
    """A room as the scripts read it; what is not known is false."""
    server, cpu, memory, free_cpu, free_memory, calm, unseen = room
    measured = (False if each is None else each for each in (free_cpu, free_memory))
    return server, cpu, memory, *measured, calm, unseen


def gate_told(gate: Gate) -> tuple[Any, ...] | bool:
    """A gate as the scripts read it; false where it lets everything pass."""
    weights = {task: weight_told(weight) for task, weight in gate.weights.items()}
    return bool(weights) and (room_told(gate.room), weights, gate.patience, RESERVED_FOR)


def permits(link: RedisLink, server: str | None) -> tuple[PermitRecord, ...]:
    """All permits; see `GateVerbs.permits`."""
    found = [_permit(text) for text in link.call("permits", False if server is None else server)[1]]
    return tuple(permit for _, permit in sorted(found, key=lambda each: (each[1].at, each[0])))


def _permit(text: bytes) -> tuple[int, PermitRecord]:
    """A permit as `lua/include/permits.lua` keeps it, and its number."""
    start = 2 + int.from_bytes(text[:2], "big")
    number, at, holder, session, what, cpu, memory, heavy = unpacked(text[start:])
    weight = Weight(cpu / 1000, memory, heavy=heavy)
    return number, PermitRecord(text[2:start].decode(), holder, session, what, weight, at)


def reservations(link: RedisLink) -> tuple[Reservation, ...]:
    """Which servers are reserved; see `GateVerbs.reservations`."""
    told = link.call("reservations", RESERVED_FOR)[1]
    found = (told[start : start + 5] for start in range(0, len(told), 5))
    return tuple(
        Reservation(server.decode(), holder.decode(), int(at), name.decode() if calls else None)
        for server, holder, at, calls, name in sorted(found)
    )
