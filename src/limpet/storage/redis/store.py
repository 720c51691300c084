"""The Redis store: every verb of the contract, each in one script."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from limpet.domain.breaker import BreakerRules, BreakerStatus, Observed
from limpet.domain.cause import Cause
from limpet.domain.clock import Clock
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
from limpet.storage.redis import (
    cargo,
    control,
    due,
    durability,
    inspect,
    limits,
    recover,
    relocate,
    within,
)
from limpet.storage.redis import flow as flows
from limpet.storage.redis import session as sessions
from limpet.storage.redis.bell import Bells
from limpet.storage.redis.enqueue import enqueue
from limpet.storage.redis.exchange import exchange
from limpet.storage.redis.gate import GateStore
from limpet.storage.redis.invariants import invariants
from limpet.storage.redis.link import RedisLink
from limpet.storage.redis.location import parse
from limpet.storage.redis.repair_store import repair_store
from limpet.storage.redis.report import report
from limpet.storage.redis.schedule import ScheduleStore


class RedisStore(ScheduleStore, GateStore):
    """A store in one Redis or Valkey; its verbs are in `storage.contract`."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._location = parse(url)
        self._link = RedisLink(self._location, clock)
        self._bells = Bells(self._link.connections)

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
        return enqueue(self._link, jobs, caps, all_or_none, fence, before_write)

    def enqueue_within(
        self,
        connection: object,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
    ) -> list[answers.Receipt]:
        raise within.refuse(connection)

    # -- hold

    def prepare_for(self, lease: timedelta) -> None:
        self._link.hold_lease(lease.total_seconds())

    def register(self, session: NewSession) -> answers.Registered:
        return sessions.register(self._link, session)

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
        return exchange(self._link, session, seq, settlements, want, begun, observed)

    def renew(
        self,
        session: str,
        begun: Sequence[Lease] = (),
        draining: bool = False,
        stepped: bool = False,
    ) -> answers.Renewed:
        return sessions.renew(self._link, session, begun, draining, stepped)

    def report(self, session: str, reports: Sequence[Report]) -> tuple[Rejected, ...]:
        return report(self._link, session, reports)

    def held(self, session: str) -> tuple[Lease, ...]:
        return sessions.held(self._link, session)

    def release(self, session: str, leases: Sequence[Lease], cause: Cause) -> tuple[Rejected, ...]:
        at_most_a_chunk(leases)
        return recover.release(self._link, session, leases, cause)

    def end(self, session: str, cause: Cause) -> bool:
        return sessions.end(self._link, session, cause)

    # -- sweep

    def expire(
        self, until: int | None = None, longest: timedelta | None = None
    ) -> tuple[Session, ...]:
        return recover.expire(self._link, until, longest)

    def recover(self, session: str) -> answers.Recovered:
        return recover.recover(self._link, session)

    def promote(self) -> answers.Promoted:
        return due.promote(self._link)

    def prune(
        self,
        retention: Mapping[State, timedelta],
        queues: Mapping[str, Mapping[State, timedelta]] | None = None,
    ) -> answers.Pruned:
        return due.prune(self._link, retention, queues or {})

    def outlook(self, longest: timedelta | None = None) -> answers.Outlook:
        return recover.outlook(self._link, longest)

    # -- control

    def cancel(self, job: str, reason: str = "") -> State:
        return control.cancel(self._link, job, reason)

    def retry(self, job: str, seen_round: int) -> int:
        return control.retry(self._link, job, seen_round)

    def pause(self, queue: str, paused: bool = True) -> None:
        control.pause(self._link, queue, paused)

    def repair(self, job: str, args: str, payload_version: int, secrets: Sequence[str]) -> State:
        return control.repair(self._link, job, args, payload_version, secrets)

    def requeue(self, jobs: Sequence[str], queue: str) -> int:
        at_most_a_chunk(jobs)
        return control.requeue(self._link, jobs, queue)

    # -- flows

    def stage(self, flow: str, place: int, jobs: Sequence[NewJob]) -> None:
        at_most_a_chunk(jobs)
        flows.stage(self._link, flow, place, jobs)

    def commit(
        self,
        flow: str,
        chunks: int,
        fence: Lease | None = None,
        *,
        caps: Mapping[str, int] | None = None,
    ) -> bool:
        return flows.commit(self._link, flow, chunks, fence, caps)

    def children(self, job: str, cursor: str | None = None, limit: int = 50) -> JobList:
        return flows.children(self._link, job, cursor, limit)

    # -- limits

    def declare_queues(self, queues: Mapping[str, QueueRules]) -> None:
        limits.declare_queues(self._link, queues)

    def limit_queue(self, queue: str, rules: QueueRules | None) -> None:
        limits.limit_queue(self._link, queue, rules)

    def hold_queue(self, queue: str, until: int) -> None:
        limits.hold_queue(self._link, queue, until)

    def limit_key(self, key: str, limit: int | None, rate: Rate | None = None) -> None:
        limits.limit_key(self._link, key, limit, rate)

    def key_limit(self, key: str) -> answers.KeyLimit:
        return limits.key_limit(self._link, key)

    def drain_queue(self, queue: str, draining: bool = True) -> None:
        limits.drain_queue(self._link, queue, draining)

    def declare_breakers(self, breakers: Sequence[BreakerRules]) -> None:
        limits.declare_breakers(self._link, breakers)

    def breakers(self) -> tuple[BreakerStatus, ...]:
        return limits.breakers(self._link)

    def reset_breaker(self, name: str) -> bool:
        return limits.reset_breaker(self._link, name)

    # -- inspect

    def job(self, job: str) -> Job | None:
        return inspect.job(self._link, job)

    def states(self, jobs: Sequence[str]) -> dict[str, State]:
        return inspect.states(self._link, jobs)

    def jobs(self, which: JobFilter, cursor: str | None = None, limit: int = 50) -> JobList:
        return inspect.jobs(self._link, which, cursor, limit)

    def events(self, job: str) -> tuple[Event, ...]:
        return inspect.events(self._link, job)

    def latest_events(self, limit: int = 20) -> tuple[JobEvent, ...]:
        return inspect.latest_events(self._link, limit)

    def log(self, job: str) -> tuple[LogLine, ...]:
        return inspect.log(self._link, job)

    def queues(self) -> tuple[QueueView, ...]:
        return inspect.queues(self._link)

    def sessions(self, with_dead: bool = False) -> tuple[Session, ...]:
        return inspect.sessions(self._link, with_dead)

    def totals(self) -> tuple[answers.Total, ...]:
        return inspect.totals(self._link)

    def info(self) -> answers.StoreInfo:
        fields = self._link.call("info")[1]
        kept = dict(zip(fields[::2], fields[1::2], strict=True))
        engine, durable = durability.engine_and_durability(self._link)
        return answers.StoreInfo(
            url=self._location.url,
            durability=durable,
            schema_version=int(kept[b"version"]),
            epoch=kept[b"store_epoch"].decode(),
            engine=engine,
            fails_over=True,
        )

    # -- admin

    def migrate(self) -> tuple[str, ...]:
        return self._link.migrate()

    def invariants(self) -> tuple[answers.Broken, ...]:
        return invariants(self._link)

    def repair_store(self) -> tuple[answers.Repaired, ...]:
        return repair_store(self._link)

    # -- move to another place

    def relocation(self) -> tuple[Relocation | None, str]:
        return relocate.relocation(self._link)

    def relocate(self, was: Relocation | None, wanted: Relocation | None) -> Relocated:
        return relocate.relocate(self._link, was, wanted)

    def manifest(self) -> Manifest:
        return cargo.manifest(self._link)

    def cargo(self, cursor: str = "") -> Cargo:
        return cargo.cargo(self._link, cursor)

    def adopt(self, move: str, cargo_: Cargo) -> int:
        return cargo.adopt(self._link, move, cargo_)

    def furnish(self, move: str, manifest: Manifest) -> None:
        cargo.furnish(self._link, move, manifest)

    def discard(self, move: str) -> bool:
        return cargo.discard(self._link, move)

    # -- the store itself

    def listen(self, topic: Topic) -> Bell:
        return self._bells.listen(topic)

    def close(self) -> None:
        self._bells.close()
        self._link.close()


def place(url: str) -> tuple[object, ...]:
    """The server and the name space in it; the registry compares them."""
    location = parse(url)
    hosts = tuple(sorted(location.hosts))
    return location.kind, hosts, location.path, location.service, location.db, location.namespace


def open_store(url: str, clock: Clock | None = None) -> store.Store:
    """Open a store by its URL; the registry calls this."""
    return RedisStore(url, clock)
