"""The verbs of the gate: permits of callers outside, and the reports of hosts."""

from collections.abc import Sequence
from datetime import timedelta

from limpet.domain.host import Host, Sample, Span
from limpet.domain.permit import RESERVE_AFTER_US, RESERVED_FOR_US, PermitRecord, Reservation, Room
from limpet.domain.weight import Weight
from limpet.storage.contract.refusals import session_dead, session_not_known
from limpet.storage.redis import hosts, permits
from limpet.storage.redis.link import RedisLink

_NOT_KNOWN, _OVER = 1, 2


def take_permit(
    link: RedisLink, session: str, weight: Weight, room: Room, reserve_after_us: int
) -> bool:
    """Admit a caller outside; see `GateVerbs.take_permit`."""
    encoded = permits.encode_weight(weight), permits.encode_room(room)
    code, *answer = link.call("take_permit", session, *encoded, RESERVED_FOR_US, reserve_after_us)
    if code == _NOT_KNOWN:
        raise session_not_known(session)
    if code == _OVER:
        raise session_dead(session)
    return bool(answer[0])


class GateStore:
    """The verbs of the gate; see `limpet.storage.contract.gating`."""

    _link: RedisLink

    def take_permit(
        self, session: str, weight: Weight, room: Room, reserve_after_us: int = RESERVE_AFTER_US
    ) -> bool:
        return take_permit(self._link, session, weight, room, reserve_after_us)

    def permits(self, server: str | None = None) -> tuple[PermitRecord, ...]:
        return permits.permits(self._link, server)

    def reservations(self) -> tuple[Reservation, ...]:
        return permits.reservations(self._link)

    def publish_host(
        self, server: str, body: str, lifetime: timedelta, samples: Sequence[Sample] = ()
    ) -> None:
        hosts.publish_host(self._link, server, body, lifetime, samples)

    def hosts(self, server: str | None = None) -> tuple[Host, ...]:
        return hosts.hosts(self._link, server)

    def samples(self, server: str, span: Span) -> tuple[Sample, ...]:
        return hosts.samples(self._link, server, span)
