"""The verbs of the gate: permits of callers outside of workers, and the reports of hosts."""

from collections.abc import Sequence
from datetime import timedelta

from limpet.domain.host import Host, Sample, Span
from limpet.domain.permit import (
    RESERVE_AFTER_US,
    PermitRecord,
    Reservation,
    Room,
    fits,
    helped_by_an_end,
)
from limpet.domain.session import Standing
from limpet.domain.weight import Weight
from limpet.storage.contract.refusals import session_dead, session_not_known
from limpet.storage.sqlite import hosts, permits
from limpet.storage.sqlite.database import Database
from limpet.storage.sqlite.session import find, standing
from limpet.storage.sqlite.transaction import Transaction


def take_permit(
    tx: Transaction, session: str, weight: Weight, room: Room, reserve_after_us: int
) -> bool:
    """Admit a caller outside of workers; see `GateVerbs.take_permit`."""
    row = find(tx, session)
    if row is None:
        raise session_not_known(session)
    if standing(tx, row) is not Standing.LIVE:
        raise session_dead(session)
    if tx.one("gate", "has", holder=session):
        return True
    reserved, beside = permits.reserved_for(tx, room.server), permits.taken_of(tx, room)
    if reserved not in (None, session) or not fits(room, beside, weight):
        ours = reserved == session or (
            reserved is None and _may_reserve(tx, session, room, reserve_after_us)
        )
        if ours and helped_by_an_end(room, beside, weight):
            tx.run("gate", "reserve_caller", server=room.server, session=session, now=tx.now)
        return False
    cpu, memory, heavy = permits.columns(weight)
    tx.run(
        "gate",
        "give_caller",
        session=session,
        server=room.server,
        cpu=cpu,
        memory=memory,
        heavy=heavy,
        now=tx.now,
    )
    return True


def _may_reserve(tx: Transaction, session: str, room: Room, reserve_after_us: int) -> bool:
    ((waits_since,),) = tx.run("gate", "waits_since", session=session)
    if waits_since > tx.now - reserve_after_us:
        return False
    confirmed = permits.confirmed(tx)
    there = tx.one("gate", "caller_there", session=session, server=room.server, **confirmed)
    return there is None


class GateStore:
    """The verbs of the gate; see `limpet.storage.contract.gating`."""

    _db: Database

    def take_permit(
        self, session: str, weight: Weight, room: Room, reserve_after_us: int = RESERVE_AFTER_US
    ) -> bool:
        return self._db.write(lambda tx: take_permit(tx, session, weight, room, reserve_after_us))

    def permits(self, server: str | None = None) -> tuple[PermitRecord, ...]:
        return self._db.read(lambda tx: permits.permits(tx, server))

    def reservations(self) -> tuple[Reservation, ...]:
        return self._db.read(permits.reservations)

    def publish_host(
        self, server: str, body: str, lifetime: timedelta, samples: Sequence[Sample] = ()
    ) -> None:
        # Published anew every second, so the report that a power cut loses would be outdated.
        return self._db.write(
            lambda tx: hosts.publish_host(tx, server, body, lifetime, samples), synced=False
        )

    def hosts(self, server: str | None = None) -> tuple[Host, ...]:
        return self._db.read(lambda tx: hosts.hosts(tx, server))

    def samples(self, server: str, span: Span) -> tuple[Sample, ...]:
        return self._db.read(lambda tx: hosts.samples(tx, server, span))
