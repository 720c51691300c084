"""The storage contract, in domain verbs, split by who needs them.

Every verb is one atomic step: it happens wholly or not at all, and its checks are part of that
step. No verb returns a driver's type or raises a driver's error. Every verb may be called from
any thread. A caller that lost the reply repeats the verb; each docstring states what a repeat does.

The lease of a session runs on the store's lease clock, everything else on wall time. All times are
whole microseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
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
)  # fmt: skip
from limpet.storage.contract.bell import Bell, Topic
from limpet.storage.contract.gating import GateVerbs
from limpet.storage.contract.relocation import MoveVerbs
from limpet.storage.contract.scheduling import ScheduleVerbs
from limpet.storage.contract.shaping import ShapingVerbs

# The most rows that one call of a verb reads or writes.
CHUNK = 1_000

# In `Pool.slots`: stands for every queue that is not named there.
ANY_QUEUE = "*"


@dataclass(frozen=True, slots=True)
class Pool:
    """Free places of one kind of executor.

    `slots`: queue → how many of its jobs may start; the pools of one want share this number.
    `ANY_QUEUE` stands for each queue that is not named, and is not shared. `total`: how many jobs
    may start in all queues together. `tasks`: the digest of the tasks that can run there, from
    `register`. `suspects`: how many of the places can run a suspect alone.
    """

    tasks: str
    slots: Mapping[str, int]
    total: int
    suspects: int = 0


@dataclass(frozen=True, slots=True)
class Want:
    """What a session can take on. A further rule of claiming becomes a further field.

    `gate`: what its host can carry; without a gate no task has a weight. See `contract.gating`.
    """

    pools: tuple[Pool, ...] = ()
    gate: Gate | None = None


def write_at_once() -> None:
    """The default of `before_write`: there is nothing to wait for."""


class EnqueueVerbs(Protocol):
    """The verb by which clients hand in work."""

    def enqueue(
        self,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
        all_or_none: bool = False,
        fence: Lease | None = None,
        before_write: Callable[[], None] = write_at_once,
    ) -> list[Receipt]:
        """(nothing) → ready; or scheduled if `scheduled_for` is in the future; or blocked if the
        job waits for its key or for children (`contract.shaping`). Atomic, at most 1,000.

        `caps`: queue → the most jobs that may wait in it. A job over the cap is answered `full`
        and not written. With `all_or_none`, or if one of the jobs has a parent, a single `full` or
        `draining` means that no job is written. A repeat of an id within `REPEAT_WINDOW` of the
        first is answered `already` and changes nothing, a job whose `unique` is held `duplicate`.
        Of several answers the first of these is given: `already`, `duplicate`, `draining`, `full`.

        A job's `parent` has counted the job in its `children`. The parent must be handed in with
        the job, in any order, or be blocked by its children in the store. Otherwise raises
        `UnknownParent`, and nothing is written.

        `fence`: the attempt that enqueues. The jobs are written only while that lease holds: its
        job runs under that session and token, and the session is live or draining. So an attempt
        whose job may have been given to another session leaves no jobs behind. Otherwise raises
        `LeaseLost`, also for a repeat of what was written before, and records that on the timeline
        of the fence's job; nothing else is written.

        `before_write`: called when everything is ready to be sent, before anything is sent. It
        returns when this call may write; if it raises, nothing is written.
        """
        ...


class HolderVerbs(Protocol):
    """The verbs by which a session holds jobs: fenced by session, and by token for each job."""

    def register(self, session: NewSession) -> Registered:
        """(nothing) → live session with its own lease; blocked jobs whose task it knows → ready, a
        chunk at a time. Atomic. A repeat of the id gets the same answer and renews nothing; the id
        of a dead session raises `SessionLost`.
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
        """Settle and claim in one step: running → the target of each settlement; ready → running
        under this session with the next token, for as many jobs as `want` has places. Atomic.

        A settlement is applied only while the job runs under that session and token; all others
        are answered in `rejected`. `begun`: held jobs that have started, so that a loss is charged.
        `observed`: how attempts ended whose task has a breaker. The store counts these before it
        claims jobs, whether or not their settlements are applied. No job is claimed of a task whose
        breaker is not closed, except one job once `probe_at` has come; `probe_at` then moves to one
        `probe_after` from now. `contract.shaping` describes what queues, keys, weights of queues
        and children do to a claim, `contract.gating` what the gate does.

        `seq` is one more than the last one. The same `seq` gets the same answer and does nothing
        again. A `seq` older than the last raises `SequenceError`. A `seq` that shows that the store
        forgot an exchange raises `StoreRolledBack`, and so does an unknown session. A session past
        its moment settles but claims nothing; a dead session does neither.

        A server that has not given out jobs of this store before (a restart, a new primary, a
        restored copy) lets nothing be claimed for the longest lease of a worker that it knows
        (sessions of permits and once-keys do not count): until then, a ready job may still run in a
        session that the server has forgotten.
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
        many jobs are held. For a session that is past its moment or dead, the answer's `standing`
        says so and nothing is renewed. An unknown session raises `StoreRolledBack`. A repeat renews
        again.

        `begun`: jobs that have started. Those that the store cannot record without waiting for
        another verb are answered as `unrecorded`; the caller sends them again.

        `stepped`: by the caller's own clock the lease has not run out, so the clock of the store
        was stepped. Then a session past its moment that nobody has ended is renewed as well.
        """
        ...

    def report(self, session: str, reports: Sequence[Report]) -> tuple[Rejected, ...]:
        """Running → running: keep progress and log lines of held jobs. Atomic. Reports on jobs that
        the session no longer holds are rejected. A repeat of progress changes nothing; repeated
        lines are kept again.
        """
        ...

    def held(self, session: str) -> tuple[Lease, ...]:
        """The leases that the session holds, as the store has them. Reads only."""
        ...

    def release(self, session: str, leases: Sequence[Lease], cause: Cause) -> tuple[Rejected, ...]:
        """Running → ready in its old place, uncharged (→ cancelled if that was requested). Atomic.
        A repeat is answered `already`.
        """
        ...

    def end(self, session: str, cause: Cause) -> bool:
        """Live or draining → dead, for ever, with the cause; its jobs wait for `recover`. Atomic.
        True if the session was not dead before; False for a repeat and for an unknown session.
        """
        ...


class SweepVerbs(Protocol):
    """The verbs that keep the store in order. Any process may call them, many at once, any time."""

    def expire(
        self, until: int | None = None, longest: timedelta | None = None
    ) -> tuple[Session, ...]:
        """Live or draining → dead for sessions whose moment had passed both when this was called
        (not only while the call waited) and at `until`, the caller's reading of the lease clock.
        Sessions with a longer lease than `longest` stay. Atomic. The answer lists every dead
        session that still has jobs, so a repeat finds what a killed sweeper left.

        A moment further away than the session's lease comes from a clock that has been set back
        since; it becomes one lease from now.
        """
        ...

    def recover(self, session: str) -> Recovered:
        """Running → ready for the jobs of a dead session, in their old place, with one more in
        `orphans` if the attempt had begun; → failed at a cap; → cancelled if that was requested.
        Atomic, at most 1,000. Jobs of a session that is not dead stay as they are; a repeat finds
        nothing left.
        """
        ...

    def promote(self) -> Promoted:
        """Let time take effect. Each of these is atomic, at most 1,000:

        - scheduled → ready (or blocked, for its key) for jobs that are due;
        - waiting → cancelled for jobs past `expires`, → failed for jobs past `deadline`;
        - failed → ready in a new round once `relaunch_at` has come (event `relaunched`, otherwise
          like `retry`);
        - blocked → ready where a rate lets a key give turns again;
        - the jobs of committed flows are written out;
        - the descendants of parents that are gone are cancelled.

        Rows that another call is just changing may be left; then the answer has `more`. A repeat
        finds nothing left. `next_due` takes all of these into account.
        """
        ...

    def prune(
        self,
        retention: Mapping[State, timedelta],
        queues: Mapping[str, Mapping[State, timedelta]] | None = None,
    ) -> Pruned:
        """(final state) → (nothing) for jobs that finished longer ago than their retention (that of
        their queue and state in `queues` if there is one, else that of their state) and are older
        than `REPEAT_WINDOW`. Jobs stay whose parent is not finished, and jobs that still hold their
        `unique` for a time. Also removes chunks of flows that were staged and not committed within
        `REPEAT_WINDOW`. Atomic, at most 1,000. A repeat goes on.
        """
        ...

    def outlook(self, longest: timedelta | None = None) -> Outlook:
        """The lease clock's time, and when the next lease of at most `longest` ends. Reads only."""
        ...


class ControlVerbs(Protocol):
    """The verbs by which a person intervenes."""

    def cancel(self, job: str, reason: str = "") -> State:
        """Waiting or quarantined → cancelled; running → running with cancellation requested,
        until its holder confirms; the bell `cancel` wakes the holders. Atomic; the answer is the
        state after it. A repeat changes nothing. Neither does the call on a final job, except that
        a failed job is no longer relaunched. Raises `JobNotFound`.
        """
        ...

    def retry(self, job: str, seen_round: int) -> int:
        """Succeeded, failed or cancelled → ready (or blocked, for its key) in a new round, counters
        at zero. Atomic.

        `seen_round` is the round that the caller saw; the answer is the new one. A repeat (the job
        is already in the next round) gets the same answer. Raises `MoveRefused` for a job that is
        not finished and for one whose `unique` another job holds now, `JobNotFound` for none.
        """
        ...

    def pause(self, queue: str, paused: bool = True) -> None:
        """Stop or resume claims from a queue. Atomic; a repeat changes nothing."""
        ...


class InspectVerbs(Protocol):
    """The verbs that show the store. Each reads one consistent moment and changes nothing."""

    def job(self, job: str) -> Job | None:
        """One job, or None."""
        ...

    def states(self, jobs: Sequence[str]) -> dict[str, State]:
        """The states of those jobs that exist."""
        ...

    def jobs(self, which: JobFilter, cursor: str | None = None, limit: int = 50) -> JobList:
        """Jobs newest first, a page at a time. Pages never repeat a job, even while jobs move."""
        ...

    def events(self, job: str) -> tuple[Event, ...]:
        """The recorded events of a job, oldest first; see `domain.event.timeline`. For a job that
        comes back for ever, a store may keep only the first ten and about the last thousand.
        """
        ...

    def latest_events(self, limit: int = 20) -> tuple[JobEvent, ...]:
        """The latest events of all jobs, newest first; at most 1,000."""
        ...

    def log(self, job: str) -> tuple[LogLine, ...]:
        """The lines that a job wrote, oldest first; a store keeps only the last ones."""
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
        """Which store this is, and how durable."""
        ...


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
    """All verbs, as a backend implements them."""

    def listen(self, topic: Topic) -> Bell:
        """A bell that rings for the topic from now on."""
        ...

    def enqueue_within(
        self,
        connection: object,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
    ) -> list[Receipt]:
        """Like `enqueue`, in the open transaction of the caller's own connection: the jobs exist
        if and only if that transaction commits. Raises `TransactionRefused` if that is not safe.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class AwaitedWithin(Protocol):
    """The further verb of a store that can enqueue on a connection whose calls are awaited."""

    async def aenqueue_within(
        self,
        connection: object,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
    ) -> list[Receipt]:
        """Like `Store.enqueue_within`."""
        ...
