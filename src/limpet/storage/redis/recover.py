"""Sessions that are over, and the jobs they leave: expire, recover, release."""

from collections.abc import Sequence

from limpet.domain.cause import Cause
from limpet.domain.lease import Lease
from limpet.domain.session import Session
from limpet.domain.transition import Rejected
from limpet.storage.answers import Outlook, Recovered
from limpet.storage.redis.link import Link
from limpet.storage.redis.rows import rejected_of, session_of
from limpet.storage.redis.settle import cause_text


def expire(link: Link, until: int | None) -> tuple[Session, ...]:
    """Mark what is overdue, and list what is dead and still has jobs; see `SweepVerbs.expire`."""
    # Asked for apart: while the script waits for a server that is busy or frozen, so do the
    # renewals of others, and these came to it before the script did.
    asked = outlook(link).now
    _, now_lease, told = link.call("expire", asked if until is None else min(asked, until))
    return tuple(session_of(id_, fields, int(now_lease)) for id_, fields in told)


def outlook(link: Link) -> Outlook:
    """What a sweeper must know; see `SweepVerbs.outlook`."""
    _, now, clock, first, widowed = link.call("outlook")
    moment = int(float(first[1])) if first else None
    return Outlook(int(now), clock.decode(), moment, bool(widowed))


def recover(link: Link, session: str) -> Recovered:
    """Take back the jobs of a dead session; see `SweepVerbs.recover`."""
    _, ready, failed, cancelled, more = link.call("recover", session)
    return Recovered(ready, failed, cancelled, more=bool(more))


def release(
    link: Link, session: str, leases: Sequence[Lease], cause: Cause
) -> tuple[Rejected, ...]:
    """Hand jobs back uncharged; see `HolderVerbs.release`."""
    why = cause_text(cause)
    said = [
        (place, "release", job, token, holder, why)
        for place, (job, holder, token) in enumerate(leases, 1)
    ]
    return rejected_of(link.call("release", session, said)[1])
