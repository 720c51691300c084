"""Sessions that are over, and the jobs they leave: expire, recover, release."""

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
from limpet.storage.redis.told import session_of


def expire(link: RedisLink, until: int | None, longest: timedelta | None) -> tuple[Session, ...]:
    """Mark what is overdue, and list what is dead and still has jobs; see `SweepVerbs.expire`."""
    # Asked for apart: while the script waits for a server that is busy or frozen, so do the
    # renewals of others, and these came to it before the script did.
    asked = outlook(link, longest).now
    at_most = asked if until is None else min(asked, until)
    _, now_lease, told = link.call("expire", at_most, _or_false(longest))
    return tuple(session_of(id_, fields, int(now_lease)) for id_, fields in told)


def outlook(link: RedisLink, longest: timedelta | None) -> Outlook:
    """What a sweeper must know; see `SweepVerbs.outlook`."""
    _, now, clock, first, widowed = link.call("outlook", _or_false(longest))
    moment = int(first) if first else None
    return Outlook(int(now), clock.decode(), moment, bool(widowed))


def _or_false(longest: timedelta | None) -> int | bool:
    """A limit as scripts take it."""
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
    said = [
        (place, "release", job, token, holder, why)
        for place, (job, holder, token) in enumerate(leases, 1)
    ]
    return rejected_of(link.call("release", session, said)[1])
