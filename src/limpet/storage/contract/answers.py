"""The answers of a store to the verbs of `limpet.storage.contract.store`."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Literal, NamedTuple

from limpet.domain.job import ClaimedJob
from limpet.domain.lease import Digest, Lease
from limpet.domain.permit import PassedOver
from limpet.domain.rate import Rate
from limpet.domain.session import Standing
from limpet.domain.state import State
from limpet.domain.transition import Rejected


class Receipt(NamedTuple):
    """The answer to one job of an `enqueue`.

    `new`: the job was written. `already`: its id was there, nothing changed. `full`: its queue is
    at the cap, and the job was not written; `waiting` is how many jobs wait in that queue.
    `duplicate`: another job of the task holds its `unique`; nothing was written, and `job` and
    `state` are those of the other job. `draining`: its queue takes in no new jobs, and the job was
    not written.
    """

    job: str
    outcome: Literal["new", "already", "full", "duplicate", "draining"]
    state: State | None
    waiting: int = 0

    @classmethod
    def all_new(cls, ids: Iterable[str], state: State) -> "list[Receipt]":
        """The receipts of jobs that were all written. Fast, because it runs for every job."""
        return list(map(cls._make, zip(ids, repeat("new"), repeat(state), repeat(0), strict=False)))


class KeyLimit(NamedTuple):
    """The limits that were set for a key at run time; None: not set."""

    limit: int | None = None
    rate: Rate | None = None


@dataclass(frozen=True, slots=True)
class Ticked:
    """The answer to a tick.

    `fired`: its jobs were handed in; see the receipts. `passed`: it was passed over, because the
    job of an earlier tick is not finished. `late`: another worker fired it before, or the schedule
    was changed. `paused`, `gone`: the schedule does not tick. `next_at`: the next tick, as the
    store has it now. `last_job`: the job that was handed in last.
    """

    outcome: Literal["fired", "passed", "late", "paused", "gone"]
    receipts: tuple[Receipt, ...] = ()
    next_at: int | None = None
    last_job: str | None = None


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The answer to an `exchange`: settlements that were not applied, and jobs to run.

    `quiet`: nothing can be claimed for now, because another server has taken over and may have
    older data; see `HolderVerbs.exchange`. `next_at`: when jobs that a rate, a hold or a breaker
    kept back from this claim may be claimed (wall time). `unfinished`: the settlements left work
    for `promote`. `passed_over`: whether the gate kept ready jobs back; there is no time for those.
    """

    standing: Standing
    rejected: tuple[Rejected, ...]
    claimed: tuple[ClaimedJob, ...]
    quiet: bool = False
    next_at: int | None = None
    unfinished: bool = False
    passed_over: PassedOver = PassedOver.NOTHING


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a `register`: the session's first moment, and digests for `Pool.tasks`.

    `tasks`: the digest of all tasks that it knows. `pools`: those of the parts, in the given order.
    """

    moment: int
    tasks: str
    pools: tuple[str, ...]
    epoch: str


@dataclass(frozen=True, slots=True)
class Renewed:
    """The answer to a `renew`.

    `moment`: until when the lease is held. `cancels`: jobs to stop. `paused`: queues from which
    nothing is claimed now. `digest`: of all jobs that the session holds in the store. `epoch`:
    changes when the store is made anew. `unrecorded`: jobs of `begun` that the store could not
    record without waiting; the caller sends them again.
    """

    standing: Standing
    moment: int
    seq: int
    cancels: tuple[Lease, ...]
    paused: tuple[str, ...]
    digest: Digest
    epoch: str
    unrecorded: tuple[Lease, ...] = ()


@dataclass(frozen=True, slots=True)
class Recovered:
    """The answer to one step of `recover`; `more`: the session has jobs left."""

    ready: int
    failed: int
    cancelled: int
    more: bool

    @property
    def jobs(self) -> int:
        return self.ready + self.failed + self.cancelled


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a sweeper must know before it ends a session.

    `now`: the lease clock's time. `clock`: the name of that clock; the clock of a new primary or a
    new boot has another name. `next_moment`: when the next of the leases in question ends, None if
    there is none. `widowed`: whether a dead session still has jobs.
    """

    now: int
    clock: str
    next_moment: int | None
    widowed: bool


@dataclass(frozen=True, slots=True)
class Promoted:
    """The answer to one step of `promote`; `next_due`: when the next step is due (wall time).

    `ready`: how many jobs became ready; jobs that were due and now wait for their key do not count.
    """

    ready: int
    lapsed: int
    more: bool
    next_due: int | None


@dataclass(frozen=True, slots=True)
class Pruned:
    """The answer to one step of `prune`; `more`: there is more to remove now."""

    jobs: int
    sessions: int
    more: bool


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant of the store that does not hold, with an example."""

    invariant: str
    sentence: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """An invariant that did not hold, and how many repairs were made."""

    invariant: str
    count: int


@dataclass(frozen=True, slots=True)
class Total:
    """How often a move was made, since the store began."""

    queue: str
    move: str
    count: int


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """A description of the store; workers show it at start, so that its durability is known.

    `in_process`: the store is in the memory of this process, and no other can see it. `fails_over`:
    another server may take over one day, and then pauses the claims; see `HolderVerbs.exchange`.
    """

    url: str
    durability: str
    schema_version: int
    epoch: str
    engine: str
    in_process: bool = False
    fails_over: bool = False
