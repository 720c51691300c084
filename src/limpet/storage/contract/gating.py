"""The verbs of the gate: permits of hosts, and what is known of hosts.

**Permits.** A claim whose `Want` has a gate takes jobs of the tasks that have a weight there only
while they fit the gate's room beside the permits that its server has given (`domain.permit.fits`),
and writes a permit for each in the same step. One that does not fit is passed over, and with it
what is behind it of the same queue and task; light jobs go on. Every verb that takes a job out of
`running` takes its permit away in the same step and rings `ready`. A session of the kind `permit`
asks with `take_permit`; whatever ends it takes its permits away and rings `ready`. So no permit is
held by what is dead, and none by two.

**Reservations.** A server may be reserved for a job or a caller that waits; while it is, no other
permit is given there. The first of the jobs that a claim passes over which might begin once the
permits of others there are gone (`domain.permit.helped_by_an_end`), and which became ready at least
`Gate.patience` ago, reserves the server, unless that is reserved, or another server is for this
job. Each claim that meets the job and passes over it confirms the reservation, while an end of
permits might still help; one that was not confirmed for `RESERVED_FOR` is none, nor is one that
was confirmed as much later than now, before the clock was set back; `publish_host` forgets both.
The job may be claimed by any session, on any server, where it fits; that ends it, as leaving
`ready` does. A caller whose session registered at least `patience` ago reserves and confirms in
the same way when it asks in vain; that ends with its session, or when it has a permit.

Nobody waits for each other: whoever has a reservation has one, and waits there for the ends of
permits, whose holders wait for no reservation. Once no such end would help, it lapses.

**Hosts.** What a host says of itself is text to the store, and is forgotten when it was not said
again for its lifetime, by the wall time of the store. Samples are kept for `SAMPLES_KEPT`.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from limpet.domain.host import Host, Sample, Span
from limpet.domain.permit import PATIENCE, PermitRecord, Reservation, Room
from limpet.domain.weight import Weight

# For how long samples are kept.
SAMPLES_KEPT: Mapping[Span, timedelta] = {
    Span.SECOND: timedelta(minutes=15),
    Span.MINUTE: timedelta(days=7),
}


class GateVerbs(Protocol):
    """Admission of heavy work."""

    def take_permit(
        self, session: str, weight: Weight, room: Room, patience: int = PATIENCE
    ) -> bool:
        """(nothing) → a permit on the room's server for this session, which is of the kind
        `permit`, if it fits; otherwise False, and nothing is written but a reservation, see above.
        Atomic. A session has one permit at most: a repeat is answered True and changes nothing.
        Raises `SessionLost` for a session that is dead or past its moment, `StoreRolledBack` for
        one that is not there.
        """
        ...

    def permits(self, server: str | None = None) -> tuple[PermitRecord, ...]:
        """All permits, or those of one server, the oldest first. Reads only."""
        ...

    def reservations(self) -> tuple[Reservation, ...]:
        """Which servers are reserved, and for whom, by server. Reads only."""
        ...

    def publish_host(
        self, server: str, body: str, lifetime: timedelta, samples: Sequence[Sample] = ()
    ) -> None:
        """Keep what a host says of itself, in the place of what it said before, and its samples.
        Atomic. A sample of a moment that has one takes its place.
        """
        ...

    def hosts(self, server: str | None = None) -> tuple[Host, ...]:
        """What hosts, or one of them, said of themselves and still holds, by server. Reads only."""
        ...

    def samples(self, server: str, span: Span) -> tuple[Sample, ...]:
        """How a host has been doing, the oldest first. Reads only."""
        ...
