"""Permits: what hosts have given away of themselves; see `storage.gating`."""

from typing import Literal

from limpet.domain.permit import RESERVED_FOR, PermitRecord, Reservation, Room, Taken
from limpet.domain.weight import Weight
from limpet.storage.contract.store import Topic
from limpet.storage.sqlite.transaction import Transaction


def columns(weight: Weight) -> tuple[int, int, int]:
    """A weight as it is kept."""
    return weight.millicores, weight.memory, int(weight.heavy)


def taken_of(tx: Transaction, room: Room) -> Taken:
    """What the permits of a host take together."""
    ((*sums,),) = tx.run("gate", "taken", server=room.server, since=tx.now - room.unseen)
    return Taken(*sums)


def confirmed(tx: Transaction) -> dict[str, int]:
    """Between which moments a reservation was confirmed that holds."""
    return {"since": tx.now - RESERVED_FOR, "until": tx.now + RESERVED_FOR}


def reserved_for(tx: Transaction, server: str) -> int | str | None:
    """For whom a host is reserved: the number of a job, or the session of a caller."""
    row = tx.one("gate", "reserved", server=server, **confirmed(tx))
    holder: int | str | None = None if row is None else row[0]
    return holder


def give_back(tx: Transaction, statement: Literal["left", "ended"]) -> None:
    """Take away permits whose holders are gone: `left` of jobs, `ended` of callers."""
    # A store without permits is not to pay for them.
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
    """Which servers are reserved; see `GateVerbs.reservations`."""
    rows = tx.run("gate", "reservations", **confirmed(tx))
    return tuple(Reservation(*row) for row in rows)
