"""The storage contract, in domain verbs, split by who needs them.

Every verb is one atomic step: it happens wholly or not at all, and what it checks is checked in
the same step. None returns a driver's type or raises a driver's error. Each may be called from
any thread. A verb whose reply was lost is simply said again; its docstring tells the answer.

The lease of a session runs on the store's lease clock, everything else on wall time, in whole
microseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol, runtime_checkable

from limpet.domain.breaker import Observed
from limpet.domain.cause import Cause
from limpet.domain.event import Event, JobEvent
from limpet.domain.job import Job, JobFilter, JobList, LogLine, NewJob, Report
from limpet.domain.lease import Lease
from limpet.domain.permit import Gate
from limpet.domain.queue import QueueView
from limpet.domain.session import NewSession, Session
from limpet.domain.state import State
from limpet.domain.transition import Rejected, Settlement
from limpet.storage.contract.admin import AdminVerbs
from limpet.storage.contract.answers import (
    Exchanged,
    Outlook,
    Promoted,
    Pruned,
    Receipt,
    Recovered,
    Registered,
    Renewed,
    StoreInfo,
    Total,
)
from limpet.storage.contract.gating import GateVerbs
from limpet.storage.contract.relocation import MoveVerbs
from limpet.storage.contract.scheduling import ScheduleVerbs
from limpet.storage.contract.shaping import ShapingVerbs

# The most rows that one call of a verb reads or writes.
CHUNK = 1_000

# In `Pool.slots`: every queue that is not named.
ANY_QUEUE = "*"


class Topic(StrEnum):
    """What a bell can ring for.

    `ready`: a job became ready. `done`: a job reached a final state. `cancel`: somebody asked for
    a running job to be cancelled; `renew` tells its holder which.
    """

    READY = "ready"
    DONE = "done"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Pool:
    """Free places of one kind of executor.

    `slots`: queue → how many of its jobs may start; the pools of one want share it. `ANY_QUEUE`
    stands for each queue that is not named, and is not shared. `total`: how many altogether.
    `tasks`: the digest of the tasks that can run there, from `register`. `suspects`: how many of
    the places can run a suspect alone.
    """

    tasks: str
    slots: Mapping[str, int]
    total: int
    suspects: int = 0


@dataclass(frozen=True, slots=True)
class Want:
    """What a session can take on; each later rule of claiming is one more field.

    `gate`: what its host can carry; without it no task has a weight. See `storage.gating`.
    """

    pools: tuple[Pool, ...] = ()
    gate: Gate | None = None


def at_once() -> None:
    """It is always this caller's turn."""


class EnqueueVerbs(Protocol):
    """What a client needs to hand in work."""

    def enqueue(
        self,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
        all_or_none: bool = False,
        fence: Lease | None = None,
        turn: Callable[[], None] = at_once,
    ) -> list[Receipt]:
        """(nothing) → ready, or scheduled when `scheduled_for` is to come, or blocked where it
        waits for its key or for children (`storage.shaping`). Atomic, at most 1,000.

        `caps`: queue → the most jobs that may wait in it; a job over the cap is answered `full`
        and not written; with `all_or_none`, and where one of the jobs has a parent, one `full` or
        `draining` means that none is written. A repeat of an id is answered `already` and changes
        nothing, within `REPEAT_WINDOW` of the first. One whose `unique` is held is answered
        `duplicate`. Of the answers the first that is right is given: `already`, `duplicate`,
        `draining`, `full`.

        A `parent` has counted it in its `children`, and must be handed in with it, in any order, or
        be blocked by its children; otherwise raises `UnknownParent`, and nothing is written.

        `fence`: the attempt that enqueues. The jobs are written only while that lease holds: its
        job runs under that session and token, and the session is live or draining, so that an
        attempt which may have been given to another leaves no jobs behind. Otherwise raises
        `LeaseLost`, also for a repeat of what was written before, and the timeline of the fence's
        job tells it; nothing else is written.

        `turn`: called once all is ready to be sent, and before anything is; it returns when this
        call may write, or raises, and then nothing is written.
        """
        ...


class HolderVerbs(Protocol):
    """What a session needs to hold jobs. All are fenced by session, and by token for a job."""

    def register(self, session: NewSession) -> Registered:
        """(nothing) → live session with a lease of its own; blocked jobs whose task it knows →
        ready, a chunk at a time. Atomic. A repeat of the id is answered the same and renews
        nothing; the id of a dead session raises `SessionLost`.
        """
        ...

    def exchange(
        self,
        session: str,
        seq: int,
        settlements: Sequence[Settlement] = (),
        want: Want | None = None,
        begun: Sequence[Lease] = (),
        observed: Sequence[Observed] = (),
    ) -> Exchanged:
        """Settle and claim in one step: running → what each settlement says; ready → running
        under this session with the next token, as far as `want` has room. Atomic.

        A settlement is applied only while the job runs under that session and token; the others
        are in `rejected`. `begun` says which held jobs have started, so that a loss is charged.
        `observed`: how attempts ended whose task has a breaker; told before jobs are claimed, and
        whether or not their settlements are applied. Of a task whose breaker is not closed nothing
        is claimed, but one job once `probe_at` has come, which then is one `probe_after` from now.
        What queues, keys, weights of queues and children do to it is told in `storage.shaping`,
        what the gate does in `storage.gating`.
        `seq` is one more than the last one; the same `seq` gets the same answer and does nothing
        again. A `seq` older than the last raises `SequenceError`; one that shows that the store
        forgot an exchange raises `StoreRolledBack`, and so does a session that is not there.
        A session past its moment settles but claims nothing; a dead one does neither.

        On a server that has not given jobs of this store before (a restart, a new primary, a
        restored copy) nothing is claimed for the longest lease of a worker (no permit or once-key)
        that it knows: what is ready may still run in a session that it has forgotten, until then.
        """
        ...

    def renew(
        self,
        session: str,
        begun: Sequence[Lease] = (),
        draining: bool = False,
        stepped: bool = False,
    ) -> Renewed:
        """Live → live (or draining) with a moment one lease from now. Atomic, one write however
        much is held. Past its moment or dead, the session is told so and nothing is renewed.
        A session that is not there raises `StoreRolledBack`. A repeat renews again.

        `begun`: jobs that have started. What cannot be noted of them without waiting for another
        verb is answered as `untold`, to be said again.

        `stepped`: by the caller's own clock the lease has not run out, so that of the store was
        stepped; then a session past its moment that nobody has ended is renewed as well.
        """
        ...

    def report(self, session: str, reports: Sequence[Report]) -> tuple[Rejected, ...]:
        """Running → running: keep progress and log lines of held jobs. Atomic. What the session
        no longer holds is rejected. A repeat of progress changes nothing; lines are kept again.
        """
        ...

    def held(self, session: str) -> tuple[Lease, ...]:
        """What the store thinks the session holds. Reads only."""
        ...

    def release(self, session: str, leases: Sequence[Lease], cause: Cause) -> tuple[Rejected, ...]:
        """Running → ready in its old place, uncharged (→ cancelled where that was requested).
        Atomic. A repeat is answered `already`.
        """
        ...

    def end(self, session: str, cause: Cause) -> bool:
        """Live or draining → dead, for ever, with the cause; its jobs wait for `recover`. Atomic.
        True if it was not dead before; a repeat, or an unknown session, is answered False.
        """
        ...


class SweepVerbs(Protocol):
    """What keeps the store in order. Any process may call them, many at once, at any time."""

    def expire(
        self, until: int | None = None, longest: timedelta | None = None
    ) -> tuple[Session, ...]:
        """Live or draining → dead for sessions whose moment was over when this was called (not
        those that it passed for while the call waited) and at `until`, what the caller holds to be
        the lease clock's time; none with a longer lease than `longest`. Atomic. The answer lists
        every dead session that still has jobs, so a repeat finds what a killed sweeper left.

        A moment further away than the session's lease was given by a clock that has been set back
        since; it becomes one lease from now.
        """
        ...

    def recover(self, session: str) -> Recovered:
        """Running → ready for the jobs of a dead session, in their old place, with `orphans` one
        up where the attempt had begun; → failed at a cap; → cancelled where that was requested.
        Atomic, at most 1,000. Of a session that is not dead nothing is touched; a repeat finds
        nothing left.
        """
        ...

    def promote(self) -> Promoted:
        """Scheduled → ready (or blocked, for its key) for jobs that are due; waiting → cancelled
        where `expires` passed, → failed where `deadline` passed; failed → ready in a new round
        where `relaunch_at` came (event `relaunched`, as `retry` else); blocked → ready where a
        rate lets a key give turns again; committed flows are written out; the descendants of
        parents that are gone are cancelled. Each of these is atomic, at most 1,000; what others are
        just changing may be left, and then there is `more`. A repeat finds nothing left.
        `next_due` looks at all of these.
        """
        ...

    def prune(
        self,
        retention: Mapping[State, timedelta],
        queues: Mapping[str, Mapping[State, timedelta]] | None = None,
    ) -> Pruned:
        """(final state) → (nothing) for jobs that finished longer ago than their retention (that of
        their queue and state in `queues`, where there is one, else that of their state) and
        are older than `REPEAT_WINDOW`, but for those whose parent is not finished and those that
        hold their `unique` for a time that is not over; what was staged and not committed in that
        window too. Atomic, at most 1,000. A repeat goes on.
        """
        ...

    def outlook(self, longest: timedelta | None = None) -> Outlook:
        """The lease clock, and when the next lease of at most `longest` ends. Reads only."""
        ...


class ControlVerbs(Protocol):
    """What a person needs to intervene."""

    def cancel(self, job: str, reason: str = "") -> State:
        """Waiting or quarantined → cancelled; running → running with cancellation requested,
        until its holder confirms; the bell `cancel` wakes the holders. Atomic; the answer is the
        state after it. Repeats, and final jobs, change nothing, but that a failed one is not
        relaunched any more. Raises `JobNotFound`.
        """
        ...

    def retry(self, job: str, seen_round: int) -> int:
        """succeeded, failed or cancelled → ready (or blocked, for its key) in a new round, counters
        at zero. Atomic. Raises `MoveRefused` also where another job holds its `unique` now.

        `seen_round` is the one that the caller saw; the answer is the new one. A repeat (the job is
        already in the next round) gets the same answer. Raises `MoveRefused` for a job that is
        not finished, `JobNotFound` for none.
        """
        ...

    def pause(self, queue: str, paused: bool = True) -> None:
        """A paused queue is not claimed from. Atomic; a repeat changes nothing."""
        ...


class InspectVerbs(Protocol):
    """What a person needs to see. All read a consistent moment and change nothing."""

    def job(self, job: str) -> Job | None:
        """One job, or None."""
        ...

    def states(self, jobs: Sequence[str]) -> dict[str, State]:
        """The states of those jobs that exist."""
        ...

    def jobs(self, which: JobFilter, cursor: str | None = None, limit: int = 50) -> JobList:
        """Jobs newest first, a page at a time. Pages never repeat a job, whatever moves."""
        ...

    def events(self, job: str) -> tuple[Event, ...]:
        """The recorded events of a job, oldest first; see `domain.event.timeline`. Of a job that
        comes back for ever a store may keep the first ten and about the last thousand.
        """
        ...

    def latest_events(self, limit: int = 20) -> tuple[JobEvent, ...]:
        """What was recorded last, of any job, newest first; at most 1,000."""
        ...

    def log(self, job: str) -> tuple[LogLine, ...]:
        """The lines that a job wrote, oldest first, capped."""
        ...

    def queues(self) -> tuple[QueueView, ...]:
        """Every queue that has or had jobs."""
        ...

    def sessions(self, with_dead: bool = False) -> tuple[Session, ...]:
        """The sessions, newest first."""
        ...

    def totals(self) -> tuple[Total, ...]:
        """How often each move was made, by queue."""
        ...

    def info(self) -> StoreInfo:
        """What the store is."""
        ...


class Bell(Protocol):
    """Wakes whoever waits for something to happen; a missed ring costs a slow poll, not a job."""

    def wait(self, timeout: timedelta) -> bool:
        """True as soon as it rang, False when the time is up; forgets the rings so far."""
        ...

    def fileno(self) -> int:
        """Readable when it rang."""
        ...

    def close(self) -> None: ...


class Store(
    EnqueueVerbs,
    HolderVerbs,
    SweepVerbs,
    ControlVerbs,
    InspectVerbs,
    AdminVerbs,
    MoveVerbs,
    ShapingVerbs,
    ScheduleVerbs,
    GateVerbs,
    Protocol,
):
    """All of it, as a backend implements it."""

    def listen(self, topic: Topic) -> Bell:
        """A bell for what happens from now on."""
        ...

    def enqueue_within(
        self,
        connection: object,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
    ) -> list[Receipt]:
        """As `enqueue`, in the open transaction of the caller's own connection: the jobs exist
        if and only if that transaction commits. Raises `TransactionRefused` where that cannot
        be done safely.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class AwaitedWithin(Protocol):
    """What a store also has if it can enqueue on a connection whose calls are awaited."""

    async def aenqueue_within(
        self,
        connection: object,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
    ) -> list[Receipt]:
        """As `Store.enqueue_within`."""
        ...
