"""The verbs of the gate: permits of callers outside, and what hosts publish about themselves."""

from collections.abc import Sequence
from datetime import timedelta

from limpet.domain.host import Host, Sample, Span
from limpet.domain.permit import RESERVE_AFTER_US, PermitRecord, Reservation, Room
from limpet.domain.session import Standing
from limpet.domain.weight import Weight
from limpet.storage.contract.refusals import session_dead, session_not_known
from limpet.storage.postgres import hosts, permits
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.texts import to_json


def take_permit(
    tx: Transaction,
    session: str,
    weight: Weight,
    room: Room,
    reserve_after_us: int = RESERVE_AFTER_US,
) -> bool:
    """Give a caller outside a permit, if it fits; see `GateVerbs.take_permit`."""
    ((standing, given),) = tx.call(
        "take_permit",
        session,
        to_json(permits.weight_record(weight)),
        to_json({**permits.room_record(room), "reserve_after_us": reserve_after_us}),
        tx.wall,
        tx.lease,
    )
    if standing is None:
        raise session_not_known(session)
    if standing != Standing.LIVE:
        raise session_dead(session)
    return bool(given)


class GateStore:
    """The verbs of the gate; see `limpet.storage.contract.gating`."""

    _db: Database

    def take_permit(
        self, session: str, weight: Weight, room: Room, reserve_after_us: int = RESERVE_AFTER_US
    ) -> bool:
        return self._db.once(lambda tx: take_permit(tx, session, weight, room, reserve_after_us))

    def permits(self, server: str | None = None) -> tuple[PermitRecord, ...]:
        return self._db.once(lambda tx: permits.permits(tx, server), reading=True)

    def reservations(self) -> tuple[Reservation, ...]:
        return self._db.once(permits.reservations, reading=True)

    def publish_host(
        self, server: str, body: str, lifetime: timedelta, samples: Sequence[Sample] = ()
    ) -> None:
        self._db.write(lambda tx: hosts.publish_host(tx, server, body, lifetime, samples))

    def hosts(self, server: str | None = None) -> tuple[Host, ...]:
        return self._db.once(lambda tx: hosts.hosts(tx, server), reading=True)

    def samples(self, server: str, span: Span) -> tuple[Sample, ...]:
        return self._db.once(lambda tx: hosts.samples(tx, server, span), reading=True)
