"""The verbs of the gate: permits of hosts, and what is known of hosts.

**Permits.** A claim whose `Want` has a gate takes jobs of tasks with a weight only while they fit
the gate's room beside the permits given on that server (`domain.permit.fits`), and writes a permit
for each in the same step. A job that does not fit is passed over, and so are the jobs behind it of
the same queue and task; light jobs go on. Every verb that takes a job out of `running` takes its
permit away in the same step and rings `ready`. A session of the kind `permit` gets its permit by
`take_permit`; the end of the session takes the permit away and rings `ready`. So nothing that is
dead holds a permit, and no permit has two holders.

**Reservations.** A server may be reserved for a waiting job or caller; meanwhile no other permit is
given there. Of the jobs that a claim passes over, the first that became ready at least
`Gate.reserve_after_us` ago and might begin once other permits there end
(`domain.permit.helped_by_an_end`) reserves the server, unless the server is reserved or another
server is reserved for this job. Each claim that meets the job and passes over it again confirms the
reservation, while an end of permits might still help. A reservation is void if it was not confirmed
for `RESERVED_FOR_US`, or if its confirmation lies as far in the future, because the clock was set
back; `publish_host` removes void ones. Any session may claim the job, on any server where it fits;
that ends the reservation, as does every other way out of `ready`. A caller whose session registered
at least `reserve_after_us` ago reserves and confirms in the same way when its `take_permit` gets no
permit; its reservation ends with its session, or when it gets a permit.

No deadlock is possible: each waiter has at most one reservation, and waits there for permits to
end, and the holders of permits wait for no reservation. Once no end of a permit would help, the
reservation lapses.

**Hosts.** A host's report is text to the store. The store forgets it when the host has not
published again for the report's lifetime, by the wall time of the store. Samples are kept for
`SAMPLES_KEPT`.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from limpet.domain.host import Host, Sample, Span
from limpet.domain.permit import RESERVE_AFTER_US, PermitRecord, Reservation, Room
from limpet.domain.weight import Weight

# How long samples are kept.
SAMPLES_KEPT: Mapping[Span, timedelta] = {
    Span.SECOND: timedelta(minutes=15),
    Span.MINUTE: timedelta(days=7),
}


class GateVerbs(Protocol):
    """Admission of heavy work."""

    def take_permit(
        self, session: str, weight: Weight, room: Room, reserve_after_us: int = RESERVE_AFTER_US
    ) -> bool:
        """(nothing) → a permit on the room's server for this session of the kind `permit`, if the
        weight fits; otherwise False, and nothing is written but a reservation, see above. Atomic.
        A session has at most one permit: a repeat is answered True and changes nothing. Raises
        `SessionLost` for a session that is dead or past its moment, `StoreRolledBack` for an
        unknown one.
        """
        ...

    def permits(self, server: str | None = None) -> tuple[PermitRecord, ...]:
        """All permits, or those of one server, oldest first. Reads only."""
        ...

    def reservations(self) -> tuple[Reservation, ...]:
        """The reservations, sorted by server. Reads only."""
        ...

    def publish_host(
        self, server: str, body: str, lifetime: timedelta, samples: Sequence[Sample] = ()
    ) -> None:
        """Keep a host's report in place of its earlier one, and its samples. Atomic. A sample
        replaces an earlier one of the same moment.
        """
        ...

    def hosts(self, server: str | None = None) -> tuple[Host, ...]:
        """The reports of all hosts, or of one, that have not lapsed, by server. Reads only."""
        ...

    def samples(self, server: str, span: Span) -> tuple[Sample, ...]:
        """The samples of a host, oldest first. Reads only."""
        ...
