"""Sessions: register, renew and end them, and list what they hold."""

from collections.abc import Sequence
from dataclasses import dataclass

from limpet.domain.cause import Cause
from limpet.domain.duration import microseconds
from limpet.domain.event import EventName
from limpet.domain.lease import Digest, Lease
from limpet.domain.session import NewSession, SessionState, Standing
from limpet.domain.state import Move
from limpet.storage.contract.answers import Registered, Renewed
from limpet.storage.contract.refusals import session_dead, session_not_known
from limpet.storage.contract.store import CHUNK
from limpet.storage.records.task_sets import tasks_digest
from limpet.storage.records.texts import to_json
from limpet.storage.sqlite.fence import mark_begun
from limpet.storage.sqlite.inspect import epoch
from limpet.storage.sqlite.keys import become_ready, waiting_of
from limpet.storage.sqlite.permits import give_back
from limpet.storage.sqlite.relocate import check, must_take_work, must_take_writes
from limpet.storage.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Found:
    """A session's row, as far as its verbs need it."""

    state: SessionState
    boot: str
    moment: int
    lease: int
    seq: int
    held: Digest
    tasks: str
    closing: bool


def find(tx: Transaction, session: str) -> Found | None:
    """The session's row, or None; raises `StoreMoved` if the store takes no writes."""
    row = tx.one("session", "find", id=session)
    if row is None:
        must_take_writes(tx)
        return None
    check(tx, row[8])
    held = Digest(row[5], row[6])
    boot, moment, lease, seq = row[1:5]
    return Found(
        SessionState(row[0]), boot, moment, lease, seq, held, row[7], closing=row[8] is not None
    )


def standing(tx: Transaction, session: Found) -> Standing:
    """The standing of the session at this moment."""
    if session.state is SessionState.DEAD:
        return Standing.DEAD
    if session.moment <= tx.now_lease or session.boot != tx.boot:
        return Standing.PAST
    return Standing.DRAINING if session.state is SessionState.DRAINING else Standing.LIVE


def register(tx: Transaction, new: NewSession) -> Registered:
    """Begin a session; see `HolderVerbs.register`."""
    must_take_work(tx)
    known = find(tx, new.id)
    if known is not None and known.state is SessionState.DEAD:
        raise session_dead(new.id)
    tasks = known.tasks if known else tasks_digest(new.tasks)
    pools = tuple(tasks_digest(part) for part in new.pools)
    moment = known.moment if known else tx.now_lease + microseconds(new.lease)
    if known is None:
        for name, known_tasks in ((tasks, new.tasks), *zip(pools, new.pools, strict=True)):
            tx.many("session", "know_task", ((name, task) for task in sorted(known_tasks)))
        tx.run(
            "session",
            "insert",
            id=new.id,
            kind=new.kind,
            name=new.name,
            host=new.host,
            pid=new.pid,
            boot=tx.boot,
            lease=microseconds(new.lease),
            moment=moment,
            tasks=tasks,
            pools=to_json(pools),
            lock=None if new.lock is None else to_json(new.lock),
            schedules=to_json(sorted(new.schedules)),
            now=tx.now,
        )
        _unblock(tx, tasks)
    return Registered(moment, tasks, pools, epoch(tx))


def _unblock(tx: Transaction, tasks: str) -> None:
    jobs = [waiting_of(row) for row in tx.run("session", "unblock", tasks=tasks, limit=CHUNK)]
    for job in jobs:
        tx.record(job.n, EventName.UNBLOCKED)
    tx.many("session", "forget_block", ((job.n,) for job in jobs))
    become_ready(tx, jobs, Move.UNBLOCK)


def renew(
    tx: Transaction, session: str, begun: Sequence[Lease], draining: bool, stepped: bool
) -> Renewed:
    """Renew a lease; see `HolderVerbs.renew`."""
    row = find(tx, session)
    if row is None:
        raise session_not_known(session)
    where = standing(tx, row)
    moment = row.moment
    if stepped and where is Standing.PAST and row.boot == tx.boot:
        where = Standing(row.state)
    if where in (Standing.LIVE, Standing.DRAINING):
        moment = tx.now_lease + row.lease
        tx.run(
            "session",
            "renew",
            id=session,
            moment=moment,
            now=tx.now,
            now_lease=tx.now_lease,
            draining=int(draining),
            stepped=int(stepped),
        )
        if draining:
            where = Standing.DRAINING
        # There may be more blocked jobs than `register` could unblock in one chunk.
        _unblock(tx, row.tasks)
    if where is not Standing.DEAD:
        mark_begun(tx, session, begun)
    cancels = tx.run("session", "cancels", session=session, limit=CHUNK)
    return Renewed(
        standing=where,
        moment=moment,
        seq=row.seq,
        cancels=tuple(Lease(job, session, token) for job, token in cancels),
        paused=tuple(name for (name,) in tx.run("session", "paused")),
        digest=row.held,
        epoch=epoch(tx),
    )


def held(tx: Transaction, session: str) -> tuple[Lease, ...]:
    """The leases that the session holds; see `HolderVerbs.held`."""
    rows = tx.run("session", "held", session=session)
    return tuple(Lease(job, session, token) for job, token in rows)


def end(tx: Transaction, session: str, cause: Cause) -> bool:
    """Mark a session dead, and take its permit away if it has one; True if it was not dead."""
    tx.run("session", "end", id=session, now=tx.now, cause=to_json(cause.record()))
    was_alive = tx.changed() == 1
    give_back(tx, "ended")
    return was_alive


def let_go(tx: Transaction, session: str, given_up: Digest) -> None:
    """Subtract jobs from the digest of what the session holds."""
    if given_up.count:
        change = Digest() - given_up
        tx.run("session", "hold", session=session, count=change.count, total=change.total)
