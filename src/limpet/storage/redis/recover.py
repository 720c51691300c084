"""Sessions that are over and the jobs that they leave: expire, recover, release."""

from collections.abc import Sequence
from datetime import timedelta

from limpet.domain.cause import Cause
from limpet.domain.duration import microseconds
from limpet.domain.lease import Lease
from limpet.domain.session import Session
from limpet.domain.transition import Rejected
from limpet.storage.contract.answers import Outlook, Recovered
from limpet.storage.redis.link import RedisLink
from limpet.storage.redis.rows import rejected_of
from limpet.storage.redis.settle import cause_text
from limpet.storage.redis.timeline import session_of


def expire(link: RedisLink, until: int | None, longest: timedelta | None) -> tuple[Session, ...]:
    """End overdue sessions and list dead ones that still have jobs; see `SweepVerbs.expire`."""
    # The lease clock is read in a call before: expire may have to wait for a server that is busy or
    # frozen. Renewals of others wait there too, and they reached the server before expire did.
    now = outlook(link, longest).now
    overdue_at = now if until is None else min(now, until)
    _, now_lease, found = link.call("expire", overdue_at, _or_false(longest))
    return tuple(session_of(id_, fields, int(now_lease)) for id_, fields in found)


def outlook(link: RedisLink, longest: timedelta | None) -> Outlook:
    """What a sweeper must know; see `SweepVerbs.outlook`."""
    _, now, clock, first, widowed = link.call("outlook", _or_false(longest))
    moment = int(first) if first else None
    return Outlook(int(now), clock.decode(), moment, bool(widowed))


def _or_false(longest: timedelta | None) -> int | bool:
    """A limit as the scripts read it."""
    return False if longest is None else microseconds(longest)


def recover(link: RedisLink, session: str) -> Recovered:
    """Take back the jobs of a dead session; see `SweepVerbs.recover`."""
    _, ready, failed, cancelled, more = link.call("recover", session)
    return Recovered(ready, failed, cancelled, more=bool(more))


def release(
    link: RedisLink, session: str, leases: Sequence[Lease], cause: Cause
) -> tuple[Rejected, ...]:
    """Hand jobs back uncharged; see `HolderVerbs.release`."""
    why = cause_text(cause)
    settlements = [
        (place, "release", job, token, holder, why)
        for place, (job, holder, token) in enumerate(leases, 1)
    ]
    return rejected_of(link.call("release", session, settlements)[1])
