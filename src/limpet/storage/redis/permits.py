"""Permits: what hosts have given away of themselves; see `storage.contract.gating`."""

from typing import Any

from limpet.domain.permit import RESERVED_FOR_US, Gate, PermitRecord, Reservation, Room
from limpet.domain.weight import Weight
from limpet.storage.redis.link import RedisLink
from limpet.storage.redis.packed import unpacked


def encode_weight(weight: Weight) -> tuple[int, int, bool]:
    """A weight as the scripts read it."""
    return weight.millicores, weight.memory, weight.heavy


def encode_room(room: Room) -> tuple[Any, ...]:
    """A room as the scripts read it; a measurement that is not known is false."""
    server, cpu, memory, free_cpu, free_memory, calm, unseen = room
    measured = (False if free is None else free for free in (free_cpu, free_memory))
    return server, cpu, memory, *measured, calm, unseen


def encode_gate(gate: Gate) -> tuple[Any, ...] | bool:
    """A gate as the scripts read it; false where no task has a weight."""
    weights = {task: encode_weight(weight) for task, weight in gate.weights.items()}
    return bool(weights) and (
        encode_room(gate.room),
        weights,
        gate.reserve_after_us,
        RESERVED_FOR_US,
    )


def permits(link: RedisLink, server: str | None) -> tuple[PermitRecord, ...]:
    """All permits; see `GateVerbs.permits`."""
    found = [_permit(text) for text in link.call("permits", False if server is None else server)[1]]
    return tuple(permit for _, permit in sorted(found, key=lambda pair: (pair[1].at, pair[0])))


def _permit(text: bytes) -> tuple[int, PermitRecord]:
    """A permit as `lua/include/permits.lua` keeps it, and its number."""
    start = 2 + int.from_bytes(text[:2], "big")
    number, at, holder, session, what, cpu, memory, heavy = unpacked(text[start:])
    weight = Weight(cpu / 1000, memory, heavy=heavy)
    return number, PermitRecord(text[2:start].decode(), holder, session, what, weight, at)


def reservations(link: RedisLink) -> tuple[Reservation, ...]:
    """Which servers are reserved; see `GateVerbs.reservations`."""
    flat = link.call("reservations", RESERVED_FOR_US)[1]
    found = (flat[start : start + 5] for start in range(0, len(flat), 5))
    return tuple(
        Reservation(server.decode(), holder.decode(), int(at), name.decode() if calls else None)
        for server, holder, at, calls, name in sorted(found)
    )
