"""The PostgreSQL store: every verb of the contract, each in one statement or one transaction."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from limpet.domain.breaker import BreakerRules, BreakerStatus, Observed
from limpet.domain.cause import Cause
from limpet.domain.clock import Clock
from limpet.domain.errors import LeaseLost, QueueFull
from limpet.domain.event import Event, JobEvent
from limpet.domain.job import Job, JobFilter, JobList, LogLine, NewJob, Report
from limpet.domain.lease import Lease
from limpet.domain.queue import QueueRules, QueueView
from limpet.domain.rate import Rate
from limpet.domain.session import NewSession, Session
from limpet.domain.state import State
from limpet.domain.transition import Rejected, Settlement
from limpet.storage.contract import answers, store
from limpet.storage.contract.bell import Bell, Topic
from limpet.storage.contract.bounds import at_most_a_chunk
from limpet.storage.contract.relocation import Cargo, Manifest, Relocated, Relocation
from limpet.storage.postgres import breakers as breaking
from limpet.storage.postgres import (
    cargo,
    control,
    due,
    info,
    inspect,
    limits,
    recover,
    relocate,
)
from limpet.storage.postgres import flow as flows
from limpet.storage.postgres import session as sessions
from limpet.storage.postgres.bell import Ringer
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.enqueue import (
    Draining,
    admit,
    enqueue,
    enqueue_capped,
    enqueue_under,
    is_plain,
    written,
)
from limpet.storage.postgres.exchange import exchange
from limpet.storage.postgres.gate import GateStore
from limpet.storage.postgres.invariants import invariants
from limpet.storage.postgres.location import parse
from limpet.storage.postgres.repair_store import repair_store
from limpet.storage.postgres.report import report
from limpet.storage.postgres.schedule import ScheduleStore
from limpet.storage.postgres.within import aenqueue_within, enqueue_within

_log = logging.getLogger("limpet.store")

# How often promote looks for a transaction that has been open for long.
_LOOK_SECONDS = 60.0


class PostgresStore(ScheduleStore, GateStore):
    """A store in one schema of a PostgreSQL database; its verbs are in `storage.contract`."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._location = parse(url)
        self._db = Database(self._location, clock)
        self._ringer = Ringer(self._db)
        self._next_look = time.monotonic() + _LOOK_SECONDS

    # -- enqueue

    def enqueue(
        self,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
        all_or_none: bool = False,
        fence: Lease | None = None,
        before_write: Callable[[], None] = store.write_at_once,
    ) -> list[answers.Receipt]:
        at_most_a_chunk(jobs)
        if fence is not None:
            before_write()
            answer = self._db.write(lambda tx: enqueue_under(tx, fence, jobs, caps, all_or_none))
            if isinstance(answer, LeaseLost):
                raise answer
            return answer
        if caps and any(job.queue in caps for job in jobs):
            before_write()
            return self._db.write(lambda tx: enqueue_capped(tx, jobs, caps, all_or_none))
        if not is_plain(jobs):
            before_write()
            return self._db.once(lambda tx: admit(tx, jobs, all_or_none=all_or_none))
        columns = written(jobs)
        before_write()
        try:
            return self._db.once(lambda tx: enqueue(tx, jobs, columns))
        except Draining:
            return self._db.once(lambda tx: admit(tx, jobs, all_or_none=all_or_none))

    def enqueue_within(
        self,
        connection: object,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
    ) -> list[answers.Receipt]:
        at_most_a_chunk(jobs)
        return enqueue_within(self._db, connection, jobs, caps)

    async def aenqueue_within(
        self,
        connection: object,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
    ) -> list[answers.Receipt]:
        at_most_a_chunk(jobs)
        return await aenqueue_within(self._db, connection, jobs, caps)

    # -- hold

    def prepare_for(self, lease: timedelta) -> None:
        self._db.hold_lease(lease.total_seconds())

    def register(self, session: NewSession) -> answers.Registered:
        self._db.hold_lease(session.lease.total_seconds())
        return self._db.once(lambda tx: sessions.register(tx, session))

    def exchange(
        self,
        session: str,
        seq: int,
        settlements: Sequence[Settlement] = (),
        want: store.Want | None = None,
        begun: Sequence[Lease] = (),
        observed: Sequence[Observed] = (),
    ) -> answers.Exchanged:
        at_most_a_chunk(settlements)
        return exchange(self._db, session, seq, settlements, want, begun, observed)

    def renew(
        self,
        session: str,
        begun: Sequence[Lease] = (),
        draining: bool = False,
        stepped: bool = False,
    ) -> answers.Renewed:
        return self._db.once(
            lambda tx: sessions.renew(tx, session, begun, draining, stepped), urgent=True
        )

    def report(self, session: str, reports: Sequence[Report]) -> tuple[Rejected, ...]:
        return self._db.write(lambda tx: report(tx, session, reports))

    def held(self, session: str) -> tuple[Lease, ...]:
        return self._db.once(lambda tx: sessions.held(tx, session), reading=True)

    def release(self, session: str, leases: Sequence[Lease], cause: Cause) -> tuple[Rejected, ...]:
        at_most_a_chunk(leases)
        return self._db.write(lambda tx: recover.release(tx, session, leases, cause))

    def end(self, session: str, cause: Cause) -> bool:
        return self._db.once(lambda tx: sessions.end(tx, session, cause))

    # -- sweep

    def expire(
        self, until: int | None = None, longest: timedelta | None = None
    ) -> tuple[Session, ...]:
        # A session that became overdue while this verb waited may only have waited too.
        now = self.outlook().now
        overdue_at = now if until is None else min(now, until)
        return self._db.write(lambda tx: recover.expire(tx, overdue_at, longest))

    def recover(self, session: str) -> answers.Recovered:
        return self._db.write(lambda tx: recover.recover(tx, session))

    def promote(self) -> answers.Promoted:
        answer = due.promote(self._db)
        if time.monotonic() > self._next_look:
            self._next_look = time.monotonic() + _LOOK_SECONDS
            if old := self._db.read(info.old_snapshot):
                _log.warning("%s: %s", self._location.url, old, extra={"action": "store.old"})
        return answer

    def prune(
        self,
        retention: Mapping[State, timedelta],
        queues: Mapping[str, Mapping[State, timedelta]] | None = None,
    ) -> answers.Pruned:
        return self._db.write(lambda tx: due.prune(tx, retention, queues))

    def outlook(self, longest: timedelta | None = None) -> answers.Outlook:
        return self._db.once(lambda tx: recover.outlook(tx, longest), reading=True)

    # -- control

    def cancel(self, job: str, reason: str = "") -> State:
        return control.cancel(self._db, job, reason)

    def retry(self, job: str, seen_round: int) -> int:
        return self._db.once(lambda tx: control.retry(tx, job, seen_round))

    def pause(self, queue: str, paused: bool = True) -> None:
        return self._db.write(lambda tx: control.pause(tx, queue, paused))

    def repair(self, job: str, args: str, payload_version: int, secrets: Sequence[str]) -> State:
        return self._db.write(lambda tx: control.repair(tx, job, args, payload_version, secrets))

    def requeue(self, jobs: Sequence[str], queue: str) -> int:
        at_most_a_chunk(jobs)
        return self._db.once(lambda tx: control.requeue(tx, jobs, queue))

    # -- shape: flows, limits, breakers

    def stage(self, flow: str, place: int, jobs: Sequence[NewJob]) -> None:
        at_most_a_chunk(jobs)
        self._db.write(lambda tx: flows.stage(tx, flow, place, jobs))

    def commit(
        self,
        flow: str,
        chunks: int,
        fence: Lease | None = None,
        *,
        caps: Mapping[str, int] | None = None,
    ) -> bool:
        answer = self._db.write(lambda tx: flows.commit(tx, flow, chunks, fence, caps))
        if isinstance(answer, LeaseLost | QueueFull):
            raise answer
        return answer

    def children(self, job: str, cursor: str | None = None, limit: int = 50) -> JobList:
        return self._db.once(lambda tx: flows.children(tx, job, cursor, limit), reading=True)

    def declare_queues(self, queues: Mapping[str, QueueRules]) -> None:
        self._db.write(lambda tx: limits.declare_queues(tx, queues))

    def limit_queue(self, queue: str, rules: QueueRules | None) -> None:
        self._db.write(lambda tx: limits.limit_queue(tx, queue, rules))

    def hold_queue(self, queue: str, until: int) -> None:
        self._db.write(lambda tx: limits.hold_queue(tx, queue, until))

    def limit_key(self, key: str, limit: int | None, rate: Rate | None = None) -> None:
        self._db.write(lambda tx: limits.limit_key(tx, key, limit, rate))

    def key_limit(self, key: str) -> answers.KeyLimit:
        return self._db.read(lambda tx: limits.key_limit(tx, key))

    def drain_queue(self, queue: str, draining: bool = True) -> None:
        self._db.write(lambda tx: limits.drain_queue(tx, queue, draining))

    def declare_breakers(self, breakers: Sequence[BreakerRules]) -> None:
        self._db.write(lambda tx: breaking.declare_breakers(tx, breakers))

    def breakers(self) -> tuple[BreakerStatus, ...]:
        return self._db.once(breaking.breakers, reading=True)

    def reset_breaker(self, name: str) -> bool:
        return self._db.write(lambda tx: breaking.reset_breaker(tx, name))

    # -- inspect

    def job(self, job: str) -> Job | None:
        return self._db.once(lambda tx: inspect.job(tx, job), reading=True)

    def states(self, jobs: Sequence[str]) -> dict[str, State]:
        return self._db.once(lambda tx: inspect.states(tx, jobs), reading=True)

    def jobs(self, which: JobFilter, cursor: str | None = None, limit: int = 50) -> JobList:
        return self._db.once(lambda tx: inspect.jobs(tx, which, cursor, limit), reading=True)

    def events(self, job: str) -> tuple[Event, ...]:
        return self._db.once(lambda tx: inspect.events(tx, job), reading=True)

    def latest_events(self, limit: int = 20) -> tuple[JobEvent, ...]:
        return self._db.once(lambda tx: inspect.latest_events(tx, limit), reading=True)

    def log(self, job: str) -> tuple[LogLine, ...]:
        return self._db.once(lambda tx: inspect.log(tx, job), reading=True)

    def queues(self) -> tuple[QueueView, ...]:
        return self._db.read(inspect.queues)

    def sessions(self, with_dead: bool = False) -> tuple[Session, ...]:
        return self._db.once(lambda tx: inspect.sessions(tx, with_dead=with_dead), reading=True)

    def totals(self) -> tuple[answers.Total, ...]:
        return self._db.once(inspect.totals, reading=True)

    def info(self) -> answers.StoreInfo:
        return self._db.read(lambda tx: info.info(tx, self._location))

    # -- admin

    def migrate(self) -> tuple[str, ...]:
        return tuple(self._db.migrate())

    def invariants(self) -> tuple[answers.Broken, ...]:
        return self._db.read(invariants, no_timeout=True)

    def repair_store(self) -> tuple[answers.Repaired, ...]:
        return repair_store(self._db)

    # -- move to another place

    def relocation(self) -> tuple[Relocation | None, str]:
        return self._db.once(relocate.relocation, reading=True)

    def relocate(self, was: Relocation | None, wanted: Relocation | None) -> Relocated:
        return self._db.write(lambda tx: relocate.relocate(tx, was, wanted))

    def manifest(self) -> Manifest:
        return self._db.read(cargo.manifest)

    def cargo(self, cursor: str = "") -> Cargo:
        return self._db.read(lambda tx: cargo.cargo(tx, cursor))

    def adopt(self, move: str, cargo_: Cargo) -> int:
        return self._db.once(lambda tx: cargo.adopt(tx, move, cargo_))

    def furnish(self, move: str, manifest: Manifest) -> None:
        self._db.write(lambda tx: cargo.furnish(tx, move, manifest))

    def discard(self, move: str) -> bool:
        return self._db.once(lambda tx: cargo.discard(tx, move))

    # -- the store itself

    def listen(self, topic: Topic) -> Bell:
        return self._ringer.listen(topic)

    def close(self) -> None:
        self._ringer.close()
        self._db.close()


def place(url: str) -> tuple[str, ...]:
    """The server, the database and the schema, by which the registry tells stores apart."""
    return parse(url).place


def open_store(url: str, clock: Clock | None = None) -> store.Store:
    """Open a store by its URL; the registry calls this."""
    return PostgresStore(url, clock)
