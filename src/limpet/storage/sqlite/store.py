"""The SQLite store: every verb of the contract, in one write transaction or one read."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import apsw

from limpet.domain.breaker import BreakerRules, BreakerStatus, Observed
from limpet.domain.cause import Cause
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.errors import LeaseLost, QueueFull, StoreCorrupt
from limpet.domain.event import Event, JobEvent
from limpet.domain.job import Job, JobFilter, JobList, LogLine, NewJob, Report
from limpet.domain.lease import Lease
from limpet.domain.queue import QueueRules, QueueView
from limpet.domain.rate import Rate
from limpet.domain.session import NewSession, Session
from limpet.domain.state import State
from limpet.domain.transition import Rejected, Settlement
from limpet.host.boot import boot_id
from limpet.storage.contract import answers, store
from limpet.storage.contract.bell import Bell, Topic
from limpet.storage.contract.bounds import at_most_a_chunk
from limpet.storage.contract.relocation import Cargo, Manifest, Relocated, Relocation
from limpet.storage.sqlite import (
    breakers as breaking,
)
from limpet.storage.sqlite import (
    cargo,
    control,
    due,
    inspect,
    keys,
    limits,
    recover,
    relocate,
)
from limpet.storage.sqlite import flow as flows
from limpet.storage.sqlite import session as sessions
from limpet.storage.sqlite.bell import FileBell
from limpet.storage.sqlite.database import Database
from limpet.storage.sqlite.enqueue import enqueue, enqueue_under
from limpet.storage.sqlite.exchange import exchange
from limpet.storage.sqlite.gate import GateStore
from limpet.storage.sqlite.invariants import damaged, invariants
from limpet.storage.sqlite.location import parse
from limpet.storage.sqlite.repair_store import repair_store
from limpet.storage.sqlite.report import report
from limpet.storage.sqlite.schedule import ScheduleStore
from limpet.storage.sqlite.transaction import Transaction
from limpet.storage.sqlite.within import enqueue_within


class SqliteStore(ScheduleStore, GateStore):
    """A store in one SQLite file, or in memory; its verbs are in `storage.contract`."""

    def __init__(self, url: str, clock: Clock | None = None, boot: str | None = None) -> None:
        self._location = parse(url)
        self._db = Database(self._location, clock or SystemClock(), boot or boot_id())
        self._passed: due.Passed = {}

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
        before_write()
        if fence is None:
            return self._db.write(lambda tx: enqueue(tx, jobs, caps, all_or_none), rows=len(jobs))
        answer = self._db.write(
            lambda tx: enqueue_under(tx, fence, jobs, caps, all_or_none), rows=len(jobs)
        )
        if isinstance(answer, LeaseLost):
            raise answer
        return answer

    def enqueue_within(
        self,
        connection: object,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
    ) -> list[answers.Receipt]:
        at_most_a_chunk(jobs)
        return enqueue_within(self._db, connection, jobs, caps)

    # -- hold

    def prepare_for(self, lease: timedelta) -> None:
        pass  # renewals have a thread of their own, and need no further connection

    def register(self, session: NewSession) -> answers.Registered:
        return self._db.write(lambda tx: sessions.register(tx, session))

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
        places = sum(pool.total for pool in want.pools) if want else 0
        return self._db.write(
            lambda tx: exchange(tx, session, seq, settlements, want, begun, observed),
            rows=max(len(settlements), places),
            synced=bool(settlements),
        )

    def renew(
        self,
        session: str,
        begun: Sequence[Lease] = (),
        draining: bool = False,
        stepped: bool = False,
    ) -> answers.Renewed:
        return self._db.write(
            lambda tx: sessions.renew(tx, session, begun, draining, stepped), urgent=True
        )

    def report(self, session: str, reports: Sequence[Report]) -> tuple[Rejected, ...]:
        return self._db.write(lambda tx: report(tx, session, reports), rows=len(reports))

    def held(self, session: str) -> tuple[Lease, ...]:
        return self._db.read(lambda tx: sessions.held(tx, session))

    def release(self, session: str, leases: Sequence[Lease], cause: Cause) -> tuple[Rejected, ...]:
        at_most_a_chunk(leases)
        return self._db.write(
            lambda tx: recover.release(tx, session, leases, cause), rows=len(leases)
        )

    def end(self, session: str, cause: Cause) -> bool:
        return self._db.write(lambda tx: sessions.end(tx, session, cause))

    # -- sweep

    def expire(
        self, until: int | None = None, longest: timedelta | None = None
    ) -> tuple[Session, ...]:
        self._db.look_for_foreign_again()
        # A session that became overdue while this call waited for the writer lock may itself have
        # been waiting for that lock to renew.
        called_at = self._db.clock.boot()
        overdue_at = called_at if until is None else min(called_at, until)
        return self._db.write(lambda tx: recover.expire(tx, overdue_at, longest))

    def recover(self, session: str) -> answers.Recovered:
        return self._db.write(lambda tx: recover.recover(tx, session), rows=store.CHUNK)

    def promote(self) -> answers.Promoted:
        return self._db.write(due.promote, rows=store.CHUNK)

    def prune(
        self,
        retention: Mapping[State, timedelta],
        queues: Mapping[str, Mapping[State, timedelta]] | None = None,
    ) -> answers.Pruned:
        return self._db.write(
            lambda tx: due.prune(tx, retention, queues, self._passed), rows=store.CHUNK
        )

    def outlook(self, longest: timedelta | None = None) -> answers.Outlook:
        return self._db.read(lambda tx: recover.outlook(tx, longest))

    # -- control

    def cancel(self, job: str, reason: str = "") -> State:
        return self._db.write(lambda tx: control.cancel(tx, job, reason))

    def retry(self, job: str, seen_round: int) -> int:
        return self._db.write(lambda tx: control.retry(tx, job, seen_round))

    def pause(self, queue: str, paused: bool = True) -> None:
        return self._db.write(lambda tx: control.pause(tx, queue, paused))

    def repair(self, job: str, args: str, payload_version: int, secrets: Sequence[str]) -> State:
        return self._db.write(lambda tx: control.repair(tx, job, args, payload_version, secrets))

    def requeue(self, jobs: Sequence[str], queue: str) -> int:
        at_most_a_chunk(jobs)
        return self._db.write(lambda tx: control.requeue(tx, jobs, queue), rows=len(jobs))

    # -- flows

    def stage(self, flow: str, place: int, jobs: Sequence[NewJob]) -> None:
        at_most_a_chunk(jobs)
        return self._db.write(lambda tx: flows.stage(tx, flow, place, jobs), rows=len(jobs))

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
        return self._db.read(lambda tx: flows.children(tx, job, cursor, limit))

    # -- limits

    def declare_queues(self, queues: Mapping[str, QueueRules]) -> None:
        return self._db.write(lambda tx: limits.declare_queues(tx, queues))

    def limit_queue(self, queue: str, rules: QueueRules | None) -> None:
        return self._db.write(lambda tx: limits.limit_queue(tx, queue, rules))

    def hold_queue(self, queue: str, until: int) -> None:
        return self._db.write(lambda tx: limits.hold_queue(tx, queue, until))

    def limit_key(self, key: str, limit: int | None, rate: Rate | None = None) -> None:
        return self._db.write(lambda tx: keys.limit_key(tx, key, limit, rate), rows=store.CHUNK)

    def key_limit(self, key: str) -> answers.KeyLimit:
        return self._db.read(lambda tx: keys.key_limit(tx, key))

    def drain_queue(self, queue: str, draining: bool = True) -> None:
        return self._db.write(lambda tx: limits.drain_queue(tx, queue, draining))

    # -- breakers

    def declare_breakers(self, breakers: Sequence[BreakerRules]) -> None:
        return self._db.write(lambda tx: breaking.declare_breakers(tx, breakers))

    def breakers(self) -> tuple[BreakerStatus, ...]:
        return self._db.read(breaking.breakers)

    def reset_breaker(self, name: str) -> bool:
        return self._db.write(lambda tx: breaking.reset_breaker(tx, name))

    # -- inspect

    def job(self, job: str) -> Job | None:
        return self._db.read(lambda tx: inspect.job(tx, job))

    def states(self, jobs: Sequence[str]) -> dict[str, State]:
        return self._db.read(lambda tx: inspect.states(tx, jobs))

    def jobs(self, which: JobFilter, cursor: str | None = None, limit: int = 50) -> JobList:
        return self._db.read(lambda tx: inspect.jobs(tx, which, cursor, limit))

    def events(self, job: str) -> tuple[Event, ...]:
        return self._db.read(lambda tx: inspect.events(tx, job))

    def latest_events(self, limit: int = 20) -> tuple[JobEvent, ...]:
        return self._db.read(lambda tx: inspect.latest_events(tx, limit))

    def log(self, job: str) -> tuple[LogLine, ...]:
        return self._db.read(lambda tx: inspect.log(tx, job))

    def queues(self) -> tuple[QueueView, ...]:
        return self._db.read(inspect.queues)

    def sessions(self, with_dead: bool = False) -> tuple[Session, ...]:
        return self._db.read(lambda tx: inspect.sessions(tx, with_dead=with_dead))

    def totals(self) -> tuple[answers.Total, ...]:
        return self._db.read(inspect.totals)

    def info(self) -> answers.StoreInfo:
        return self._db.read(self._info)

    def _info(self, tx: Transaction) -> answers.StoreInfo:
        row = tx.one("inspect", "store")
        if self._location.in_memory:
            durability = "none: the store is in memory and ends with the process"
        elif self._location.synchronous == "full":
            durability = "survives a crash and a power cut (synchronous=full)"
        else:
            durability = "survives a crash; a power cut may lose the last moments (normal)"
        return answers.StoreInfo(
            url=self._location.url,
            durability=durability,
            schema_version=row[1] if row else 0,
            epoch=row[0] if row else "",
            engine=f"SQLite {apsw.sqlite_lib_version()}",
            in_process=self._location.in_memory,
        )

    # -- admin

    def migrate(self) -> tuple[str, ...]:
        return tuple(self._db.migrate())

    def invariants(self) -> tuple[answers.Broken, ...]:
        try:
            return self._db.read(invariants)
        except StoreCorrupt as error:
            # The file is too damaged to check the rules one by one.
            return (damaged(str(error)),)

    def repair_store(self) -> tuple[answers.Repaired, ...]:
        return repair_store(self._db)

    # -- move to another place

    def relocation(self) -> tuple[Relocation | None, str]:
        return self._db.read(relocate.relocation)

    def relocate(self, was: Relocation | None, wanted: Relocation | None) -> Relocated:
        return self._db.write(lambda tx: relocate.relocate(tx, was, wanted))

    def manifest(self) -> Manifest:
        return self._db.read(cargo.manifest)

    def cargo(self, cursor: str = "") -> Cargo:
        return self._db.read(lambda tx: cargo.cargo(tx, cursor))

    def adopt(self, move: str, cargo_: Cargo) -> int:
        return self._db.write(lambda tx: cargo.adopt(tx, move, cargo_), rows=store.CHUNK)

    def furnish(self, move: str, manifest: Manifest) -> None:
        return self._db.write(lambda tx: cargo.furnish(tx, move, manifest))

    def discard(self, move: str) -> bool:
        return self._db.write(lambda tx: cargo.discard(tx, move), rows=store.CHUNK)

    # -- the store itself

    def listen(self, topic: Topic) -> Bell:
        if self._location.in_memory:
            return self._db.memory_bell(topic)
        return FileBell(self._location.path, topic)

    def close(self) -> None:
        self._db.close()


def place(url: str) -> tuple[str, str]:
    """The file and the name space in it; the registry compares these."""
    location = parse(url)
    return location.path, location.namespace


def open_store(url: str, clock: Clock | None = None) -> store.Store:
    """Open a store by its URL; the registry calls this."""
    return SqliteStore(url, clock)
