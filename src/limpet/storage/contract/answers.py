"""What a store answers to the verbs of `limpet.storage.contract.store`."""

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
    """What became of one job of an `enqueue`.

    `new`: it was written. `already`: the id was there, nothing changed. `full`: its queue is at
    the cap, and it was not written; `waiting` says how many are ahead. `duplicate`: another job of
    the task holds its `unique`; nothing was written, and `job` and `state` are those of the other.
    `draining`: its queue takes in no new jobs, and it was not written.
    """

    job: str
    outcome: Literal["new", "already", "full", "duplicate", "draining"]
    state: State | None
    waiting: int = 0

    @classmethod
    def all_new(cls, ids: Iterable[str], state: State) -> "list[Receipt]":
        """Those of jobs that were all written; made for every job."""
        return list(map(cls._make, zip(ids, repeat("new"), repeat(state), repeat(0), strict=False)))


class KeyLimit(NamedTuple):
    """What was set for a key at run time; what is None was not."""

    limit: int | None = None
    rate: Rate | None = None


@dataclass(frozen=True, slots=True)
class Ticked:
    """What became of a tick.

    `fired`: its jobs were handed in, as the receipts tell. `passed`: it was passed over, because
    the job of an earlier one is not finished. `late`: another fired it before, or the schedule was
    changed. `paused`, `gone`: it does not tick. `next_at`: the tick to come, as the store has it
    now. `last_job`: the one that was handed in last.
    """

    outcome: Literal["fired", "passed", "late", "paused", "gone"]
    receipts: tuple[Receipt, ...] = ()
    next_at: int | None = None
    last_job: str | None = None


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The answer to an `exchange`: settlements that were not applied, and jobs to run.

    `quiet`: nothing is claimed just now, whatever is ready, because another server has taken over
    and may have older data; see `HolderVerbs.exchange`. `next_at`: when more may be had of what a
    rate, a hold or a breaker kept back from this claim (wall time). `unfinished`: `promote` has
    something to do now, because of what was settled. `passed_over`: whether ready jobs were left
    for the gate; when they may begin, nobody can say.
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
    """A session's start: its first moment, and the digests to name in `Pool.tasks`.

    `tasks` is that of all it knows, `pools` those of the parts, in the order given.
    """

    moment: int
    tasks: str
    pools: tuple[str, ...]
    epoch: str


@dataclass(frozen=True, slots=True)
class Renewed:
    """The answer to a `renew`.

    `moment`: until when the lease is held. `cancels`: jobs to stop. `paused`: queues from which
    nothing is claimed now. `digest`: what the store thinks the session holds. `epoch`: changes
    when the store was made anew. `untold`: jobs that were said to have begun, and could not be
    noted without waiting; to be said again.
    """

    standing: Standing
    moment: int
    seq: int
    cancels: tuple[Lease, ...]
    paused: tuple[str, ...]
    digest: Digest
    epoch: str
    untold: tuple[Lease, ...] = ()


@dataclass(frozen=True, slots=True)
class Recovered:
    """What one step of `recover` did; `more` says that the session has jobs left."""

    ready: int
    failed: int
    cancelled: int
    more: bool

    @property
    def jobs(self) -> int:
        return self.ready + self.failed + self.cancelled


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a sweeper must know before it ends anybody's session.

    `now`: the lease clock. `clock`: which clock that is; another one, of a new primary or a new
    boot, has another name. `next_moment`: when the next lease ends of those that were asked for,
    None if there is none. `widowed`: whether a dead session still has jobs.
    """

    now: int
    clock: str
    next_moment: int | None
    widowed: bool


@dataclass(frozen=True, slots=True)
class Promoted:
    """What one step of `promote` did; `next_due` is the wall time of the next one to come.

    `ready`: jobs that time made ready; one that was due and waits for its key is not among them.
    """

    ready: int
    lapsed: int
    more: bool
    next_due: int | None


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one step of `prune` removed; `more` says that there is more to remove now."""

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
class Mended:
    """An invariant that did not hold, and how often it was put right."""

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
    """What the store is: shown at start, so that its durability is known.

    `in_process`: it is in the memory of this process, and no other can see it. `fails_over`:
    another server may answer for it one day, and pause the claims; see `HolderVerbs.exchange`.
    """

    url: str
    durability: str
    schema_version: int
    epoch: str
    engine: str
    in_process: bool = False
    fails_over: bool = False
