"""Registers, renews and ends sessions, and lists what they hold."""

from collections.abc import Sequence

from limpet.domain.cause import Cause
from limpet.domain.duration import microseconds
from limpet.domain.lease import Digest, Lease
from limpet.domain.session import NewSession, Standing
from limpet.host.boot import boot_id
from limpet.storage.contract.answers import Registered, Renewed
from limpet.storage.contract.refusals import session_dead, session_not_known
from limpet.storage.records.task_sets import tasks_digest
from limpet.storage.records.texts import to_json
from limpet.storage.redis.exchange import encode_leases
from limpet.storage.redis.link import RedisLink
from limpet.storage.redis.settle import cause_text


def register(link: RedisLink, new: NewSession) -> Registered:
    """Begin a session; see `HolderVerbs.register`."""
    link.hold_lease(new.lease.total_seconds())
    pools = [(tasks_digest(part), sorted(part)) for part in new.pools]
    digests = [digest for digest, _ in pools]
    about = {
        "kind": new.kind,
        "name": new.name,
        "host": new.host,
        "pid": new.pid,
        "boot": boot_id(),
        "pools": to_json(digests),
        "lock": "" if new.lock is None else to_json(new.lock),
        "schedules": to_json(sorted(new.schedules)),
    }
    code, *answer = link.call(
        "register",
        new.id,
        microseconds(new.lease),
        tasks_digest(new.tasks),
        sorted(new.tasks),
        pools,
        [word for pair in about.items() for word in pair],
    )
    if code:
        raise session_dead(new.id)
    moment, tasks, epoch = answer
    return Registered(int(moment), tasks.decode(), tuple(digests), epoch.decode())


def renew(
    link: RedisLink, session: str, begun: Sequence[Lease], draining: bool, stepped: bool
) -> Renewed:
    """Renew a lease; see `HolderVerbs.renew`."""
    answered = link.answered.get(session, 0)
    code, *answer = link.call(
        "renew", session, encode_leases(begun), draining, stepped, answered, urgent=True
    )
    if code:
        raise session_not_known(session)
    standing, moment, seq, count, total, cancels, paused, epoch = answer
    return Renewed(
        standing=Standing(standing.decode()),
        moment=int(moment),
        seq=seq,
        cancels=_leases(session, cancels),
        paused=tuple(sorted(queue.decode() for queue in paused)),
        digest=Digest(count, int(total)),
        epoch=epoch.decode(),
    )


def held(link: RedisLink, session: str) -> tuple[Lease, ...]:
    """The jobs that a session holds, as the store sees it."""
    return _leases(session, link.call("held", session)[1])


def _leases(session: str, pairs: Sequence[bytes]) -> tuple[Lease, ...]:
    held_ = zip(pairs[::2], pairs[1::2], strict=True)
    return tuple(Lease(job.decode(), session, int(token)) for job, token in held_)


def end(link: RedisLink, session: str, cause: Cause) -> bool:
    """Mark a session dead; True if it was not dead before."""
    link.answered.pop(session, None)
    return bool(link.call("end", session, cause_text(cause), cause.charged)[1])
