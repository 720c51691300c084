"""The verbs that shape the work: keys, limits, flows, breakers, repair.

**Turns of a key.** A job with a key is ready or running only with a turn of that key. A key gives a
turn to a job while fewer than the job's `key_limit` (or what `limit_key` set) have one, and while
its rate lets one begin. A job that gets none is `blocked`, by `key:KEY`, in the order of its
sort key and number among those that wait for the same key; queues and tasks do not matter. A job
asks for a turn whenever it would become ready: by enqueue, promote, unblock, reopen, repair, its
last child. Release, orphan and recover keep the turn, so that the job comes first in its key. It
is given back by every final state, by quarantine, by block (no worker knows its task), by fan-out,
and by retry and snooze unless the job is `key_strict`; a strict one keeps it while scheduled and
needs none when it is due. Who gives a turn back lets the next ones have theirs in the same step:
blocked → ready, in order, as many as the limit allows. A turn that only time can give (a rate) is
given by `promote`. Whoever asks joins those that wait, and the first of them that may have no turn
stops the line, so that nobody is overtaken for ever; who asks in one step with others has no
advantage of having been named first. Turns are thus never lost with a worker: they are the jobs'
own.

**Queues.** What may run of a queue is bounded when it is claimed: `concurrency` running jobs in
all, as many starts as the rate allows, nothing before `held_until`. Jobs kept back so stay
`ready`. Whoever ends a job of a queue that is at its concurrency rings `ready`. Where any queue
has a weight, a claim that finds more jobs than room serves queues in proportion to their weights
(those without one have 1), none being left out for ever; within a queue the order stays.

**Unique.** Of the jobs of one task with one `unique`, the newest that was taken in holds it, for
as long as its `unique_until` says, judged by its state or its age when the next one comes. That one
is a `duplicate`, unless it `replaces`: then the holder, if it still waits, is cancelled with
`Replaced`, and the new one is taken in, also beside one that runs. A job that is opened again
holds it again; a relaunch is dropped where another does.

**Flows.** A job whose rules name `children` is `blocked` by `children:` with `pending` set to that
number. Each child (a job whose `parent` it is) that reaches a final state in its first round takes
one away, in the same step, and so does one that is a `duplicate`; the last one lets the parent ask
to become ready. A child that fails or is cancelled with `child_failure=fail` makes the parent fail
at once (`ChildFailed`, move `abandon`), which counts for the parent's own parent in turn. When a
blocked parent becomes failed or cancelled, by whatever verb, all its descendants that are not
finished are cancelled (`ParentGone`), the running ones by a request, at most 1,000 in the same
step, the others by `promote`; those that failed are not relaunched. A job whose parent is not
finished is not pruned.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from limpet.domain.breaker import BreakerRules, BreakerStatus
from limpet.domain.job import JobList, NewJob
from limpet.domain.lease import Lease
from limpet.domain.queue import QueueRules
from limpet.domain.rate import Rate
from limpet.domain.state import State
from limpet.storage.contract.answers import KeyLimit


class FlowVerbs(Protocol):
    """Many jobs that come into being at one moment."""

    def stage(self, flow: str, place: int, jobs: Sequence[NewJob]) -> None:
        """Keep jobs aside under the name of a flow, where nobody sees them. Atomic, at most 1,000.
        `place` counts from 0; a repeat of one takes its place. What is not committed within
        `REPEAT_WINDOW` is removed by `prune`.
        """
        ...

    def commit(
        self,
        flow: str,
        chunks: int,
        fence: Lease | None = None,
        *,
        caps: Mapping[str, int] | None = None,
    ) -> bool:
        """All staged jobs of the flow come into being: from here on every one will reach a final
        state. Atomic, one small write; `promote` writes them out, at most 1,000 a call, as
        `enqueue` would, parents in any order. Raises `FlowIncomplete` unless the places below
        `chunks` are there. True if it was not committed before; a repeat is answered False.
        `fence`: the attempt that asks for it; `LeaseLost` if it does not hold, as with `enqueue`.
        `caps`: queue → the most jobs that may wait in it, with those of committed flows that are
        not written out yet, for whoever asks. One for which there is no room raises `QueueFull`,
        and nothing of the flow is left.
        """
        ...

    def children(self, job: str, cursor: str | None = None, limit: int = 50) -> JobList:
        """The jobs whose parent it is, oldest first, a page at a time. Reads only."""
        ...


class LimitVerbs(Protocol):
    """How much of a queue or a key may be under way."""

    def declare_queues(self, queues: Mapping[str, QueueRules]) -> None:
        """What the app says of its queues; what `limit_queue` set stays above it. A queue that is
        not named keeps what was declared before. Atomic; a repeat changes nothing.
        """
        ...

    def limit_queue(self, queue: str, rules: QueueRules | None) -> None:
        """Set at run time, over what is declared, for all workers, from the next claim on; None
        takes that back. Rings `ready`. Atomic; a repeat changes nothing.
        """
        ...

    def hold_queue(self, queue: str, until: int) -> None:
        """Nothing of it is claimed before that wall time; 0 takes that back. Atomic."""
        ...

    def limit_key(self, key: str, limit: int | None, rate: Rate | None = None) -> None:
        """For all jobs of that key, instead of what they name themselves; both None takes that
        back. Turns that this makes possible are given in the same step, at most 1,000; a repeat
        gives on. Atomic.
        """
        ...

    def key_limit(self, key: str) -> KeyLimit:
        """What `limit_key` set for a key. Reads only."""
        ...

    def drain_queue(self, queue: str, draining: bool = True) -> None:
        """A queue that is drained takes in no new jobs (answered `draining`) but by jobs that run
        and by flows that are committed; what it has goes on. Atomic; a repeat changes nothing.
        """
        ...


class BreakerVerbs(Protocol):
    """What holds the work of some tasks back; see `domain.breaker`. Attempts are told with
    `exchange(observed=…)`.
    """

    def declare_breakers(self, breakers: Sequence[BreakerRules]) -> None:
        """What the app says of its breakers; the state of those that are known stays. Atomic; a
        repeat changes nothing.
        """
        ...

    def breakers(self) -> tuple[BreakerStatus, ...]:
        """Every breaker, by name. Reads only."""
        ...

    def reset_breaker(self, name: str) -> bool:
        """Open or probing → closed, on a person's word. Atomic; False if there is none."""
        ...


class RepairVerbs(Protocol):
    """What a person does to jobs that cannot go on by themselves, or not there."""

    def repair(self, job: str, args: str, payload_version: int, secrets: Sequence[str]) -> State:
        """Quarantined → ready (or blocked, for its key) with these arguments, its counters as they
        were. Atomic. Raises `MoveRefused` for a job in another state, `JobNotFound` for none.
        """
        ...

    def requeue(self, jobs: Sequence[str], queue: str) -> int:
        """Waiting → waiting in that queue, in the order that they had. Atomic, at most 1,000. The
        answer says how many were moved; those in other states, or there already, stay.
        """
        ...


class ShapingVerbs(FlowVerbs, LimitVerbs, BreakerVerbs, RepairVerbs, Protocol):
    """All that shapes the work."""
