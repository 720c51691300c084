"""Permits and reservations of hosts; see `contract.gating`."""

from typing import Literal

from limpet.domain.permit import RESERVED_FOR_US, PermitRecord, Reservation, Room, Taken
from limpet.domain.weight import Weight
from limpet.storage.contract.bell import Topic
from limpet.storage.sqlite.transaction import Transaction


def columns(weight: Weight) -> tuple[int, int, int]:
    """The columns in which a weight is kept."""
    return weight.millicores, weight.memory, int(weight.heavy)


def taken_of(tx: Transaction, room: Room) -> Taken:
    """What all permits of a host take together."""
    ((*sums,),) = tx.run("gate", "taken", server=room.server, since=tx.now - room.unseen)
    return Taken(*sums)


def confirmed(tx: Transaction) -> dict[str, int]:
    """The earliest and latest time at which a valid reservation may have been confirmed."""
    return {"since": tx.now - RESERVED_FOR_US, "until": tx.now + RESERVED_FOR_US}


def reserved_for(tx: Transaction, server: str) -> int | str | None:
    """The holder of a host's reservation: the number of a job, or the session of a caller."""
    row = tx.one("gate", "reserved", server=server, **confirmed(tx))
    holder: int | str | None = None if row is None else row[0]
    return holder


def give_back(tx: Transaction, statement: Literal["left", "ended"]) -> None:
    """Remove permits whose holders are gone: `left` for jobs, `ended` for callers."""
    # Stores without permits skip the deletion.
    if tx.one("gate", "any"):
        tx.run("gate", statement)
        if tx.changed():
            tx.bells.add(Topic.READY)


def permits(tx: Transaction, server: str | None) -> tuple[PermitRecord, ...]:
    """All permits; see `GateVerbs.permits`."""
    return tuple(
        PermitRecord(
            server, holder, session, what, Weight(cpu / 1000, memory, heavy=bool(heavy)), at
        )
        for server, holder, session, what, cpu, memory, heavy, at in tx.run(
            "gate", "permits", server=server
        )
    )


def reservations(tx: Transaction) -> tuple[Reservation, ...]:
    """The valid reservations; see `GateVerbs.reservations`."""
    rows = tx.run("gate", "reservations", **confirmed(tx))
    return tuple(Reservation(*row) for row in rows)
