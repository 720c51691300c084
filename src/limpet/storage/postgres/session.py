"""Sessions: register, renew, end, and what they hold."""

from collections.abc import Sequence

from limpet.domain.cause import Cause
from limpet.domain.duration import microseconds
from limpet.domain.lease import Digest, Lease
from limpet.domain.session import NewSession, SessionState, Standing
from limpet.host.boot import boot_id
from limpet.storage.contract.answers import Registered, Renewed
from limpet.storage.contract.refusals import session_dead, session_not_known
from limpet.storage.postgres.lists import column
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.task_sets import tasks_digest
from limpet.storage.records.texts import to_json


def register(tx: Transaction, new: NewSession) -> Registered:
    """Begin a session; see `HolderVerbs.register`."""
    tasks = tasks_digest(new.tasks)
    pools = tuple(tasks_digest(part) for part in new.pools)
    known = {tasks: sorted(new.tasks)} | {
        digest: sorted(part) for digest, part in zip(pools, new.pools, strict=True)
    }
    ((found, moment, kept, epoch),) = tx.call(
        "register",
        new.id,
        new.kind,
        new.name,
        new.host,
        new.pid,
        boot_id(),
        microseconds(new.lease),
        tasks,
        to_json(pools),
        None if new.lock is None else to_json(new.lock),
        to_json(known),
        tx.wall,
        tx.lease,
    )
    if found == SessionState.DEAD:
        raise session_dead(new.id)
    if found is None and new.schedules:
        schedules = to_json(sorted(new.schedules))
        tx.run("session", "declare", session=new.id, schedules=schedules)
    return Registered(moment, kept, pools, epoch)


def renew(
    tx: Transaction, session: str, begun: Sequence[Lease], draining: bool, stepped: bool
) -> Renewed:
    """Renew a lease; see `HolderVerbs.renew`."""
    jobs = column([lease.job for lease in begun]) if begun else None
    tokens = column([str(lease.token) for lease in begun]) if begun else None
    ((standing, moment, seq, count, total, cancels, paused, epoch, unrecorded),) = tx.call(
        "renew", session, jobs, tokens, draining, stepped, tx.wall, tx.lease
    )
    if standing is None or seq is None:
        raise session_not_known(session)
    return Renewed(
        standing=Standing(standing),
        moment=moment,
        seq=seq,
        cancels=tuple(Lease(job, session, token) for job, token in cancels or ()),
        paused=tuple(paused or ()),
        digest=Digest(count, total),
        epoch=epoch,
        unrecorded=tuple(Lease(job, session, token) for job, token in unrecorded or ()),
    )


def held(tx: Transaction, session: str) -> tuple[Lease, ...]:
    """The leases of a session, as the store knows them."""
    rows = tx.run("session", "held", session=session)
    return tuple(Lease(job, session, token) for job, token in rows)


def end(tx: Transaction, session: str, cause: Cause) -> bool:
    """Mark a session dead; True if it was not dead before."""
    ((ended,),) = tx.call("end", session, to_json(cause.record()), tx.wall)
    return bool(ended)
