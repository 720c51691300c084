"""Permits: the parts of their room that hosts have given away; see `storage.contract.gating`."""

from typing import Any

from limpet.domain.permit import RESERVED_FOR_US, Gate, PermitRecord, Reservation, Room
from limpet.domain.weight import Weight
from limpet.storage.postgres.transaction import Transaction


def weight_record(weight: Weight) -> dict[str, Any]:
    """A weight as the SQL functions read it: cpu in thousandths of a core."""
    return {"cpu": weight.millicores, "memory": weight.memory, "heavy": weight.heavy}


def room_record(room: Room) -> dict[str, Any]:
    """The room of a host, as the SQL functions read it."""
    return {**room._asdict(), "reserved_for": RESERVED_FOR_US}


def gate_record(gate: Gate) -> dict[str, Any]:
    """The gate of a claim (its host's room, and what tasks weigh), as the SQL functions read it."""
    return {
        "room": room_record(gate.room),
        "weights": {task: weight_record(weight) for task, weight in gate.weights.items()},
        "reserve_after_us": gate.reserve_after_us,
    }


def permits(tx: Transaction, server: str | None) -> tuple[PermitRecord, ...]:
    """All permits; see `GateVerbs.permits`."""
    return tuple(
        PermitRecord(server, holder, session, what, Weight(cpu / 1000, memory, heavy=heavy), at)
        for server, holder, session, what, cpu, memory, heavy, at in tx.run(
            "gate", "permits", server=server
        )
    )


def reservations(tx: Transaction) -> tuple[Reservation, ...]:
    """Which servers are reserved; see `GateVerbs.reservations`."""
    rows = tx.run("gate", "reservations", now=tx.wall, reserved_for=RESERVED_FOR_US)
    return tuple(Reservation(*row) for row in rows)
