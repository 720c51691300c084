"""The verbs that shape the work: keys, limits, flows, breakers, repair.

**Turns of a key.** A job with a key is ready or running only with a turn of that key. A key gives a
job a turn while fewer jobs than the job's `key_limit` (or the limit set by `limit_key`) have one,
and while the key's rate lets one begin. A job without a turn is `blocked` by `key:KEY`. Jobs that
wait for the same key stand in one line, ordered by sort key and number, whatever their queues and
tasks. A job requests a turn whenever it would become ready: at enqueue, promote, unblock, reopen,
repair, or the end of its last child. Release, orphan and recover keep the turn, so that the job
comes first in its key. Every final state, quarantine, block (no worker knows the task), fan-out,
retry and snooze give the turn back; but a `key_strict` job keeps its turn through retry and snooze,
and needs no new one when it is due. The step that gives a turn back passes it on: the next jobs in
line go blocked → ready, as many as the limit allows. `promote` gives the turns that only time can
give (a rate). Every request joins the line, and the first job in line that may have no turn stops
it, so that no job is overtaken for ever; among requests of one step, the order of the call does not
matter. Turns belong to the jobs, so the death of a worker loses none.

**Queues.** The limits of a queue apply when jobs are claimed: at most `concurrency` running jobs,
as many starts as the rate allows, none before `held_until`. Jobs that are kept back stay `ready`.
The end of a job of a queue at its concurrency rings `ready`. If any queue has a weight, a claim
that finds more jobs than it has places serves queues in proportion to their weights (a queue
without one has weight 1), and leaves none out for ever; within a queue the order stays.

**Unique.** Among the jobs of one task with the same `unique`, the newest accepted job holds it, for
as long as its `unique_until` allows: the store checks the holder's state or age when the next job
comes. The next job is a `duplicate`, unless it `replaces`: then the holder is cancelled with
`Replaced` if it still waits, and the new job is accepted, even beside a holder that runs. A job
that is opened again holds its `unique` again; a relaunch is dropped if another job holds it.

**Flows.** A job whose rules name `children` is `blocked` by `children:`, with `pending` set to that
number. Each child (a job with this `parent`) that reaches a final state in its first round takes
one off, in the same step; so does a child that is a `duplicate`. After the last one the parent
goes on towards ready. A child with `child_failure=fail` that fails or is cancelled makes the parent
fail at once (`ChildFailed`, move `abandon`), which counts in turn for the parent's own parent. When
a blocked parent becomes failed or cancelled, by whatever verb, all its unfinished descendants are
cancelled (`ParentGone`), running ones by a request: at most 1,000 in the same step, the others by
`promote`. Descendants that failed are not relaunched. A job whose parent is not finished is not
pruned.
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
    """The verbs for many jobs that come into being at one moment."""

    def stage(self, flow: str, place: int, jobs: Sequence[NewJob]) -> None:
        """Keep jobs aside under the name of a flow, where no other verb sees them. Atomic, at most
        1,000. `place` counts from 0; a repeat of a place replaces what is there. `prune` removes
        what is not committed within `REPEAT_WINDOW`.
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
        """All staged jobs of the flow come into being: from here on each will reach a final state.
        Atomic, one small write; `promote` writes the jobs out, at most 1,000 a call, as `enqueue`
        would, parents in any order. Raises `FlowIncomplete` unless all places below `chunks` are
        there. True if the flow was not committed before; a repeat is answered False.

        `fence`: the attempt that commits; raises `LeaseLost` if its lease does not hold, as
        `enqueue` does. `caps`: queue → the most jobs that may wait in it, counting jobs of
        committed flows that are not written out yet. A queue that cannot take the flow's jobs
        raises `QueueFull`, and nothing of the flow is left.
        """
        ...

    def children(self, job: str, cursor: str | None = None, limit: int = 50) -> JobList:
        """The children of a job, oldest first, a page at a time. Reads only."""
        ...


class LimitVerbs(Protocol):
    """The verbs for the limits of queues and keys."""

    def declare_queues(self, queues: Mapping[str, QueueRules]) -> None:
        """Set the rules that the app declares; those set by `limit_queue` still override them. A
        queue that is not named keeps what was declared before. Atomic; a repeat changes nothing.
        """
        ...

    def limit_queue(self, queue: str, rules: QueueRules | None) -> None:
        """Set rules at run time that override the declared ones, for all workers, from the next
        claim on; None removes them. Rings `ready`. Atomic; a repeat changes nothing.
        """
        ...

    def hold_queue(self, queue: str, until: int) -> None:
        """Let no job of the queue be claimed before that wall time; 0 ends the hold. Atomic."""
        ...

    def limit_key(self, key: str, limit: int | None, rate: Rate | None = None) -> None:
        """Set the limits for all jobs of that key, in place of those that the jobs name; None for
        both removes them. Gives the turns that this makes possible in the same step, at most 1,000;
        a repeat gives more. Atomic.
        """
        ...

    def key_limit(self, key: str) -> KeyLimit:
        """The limits that `limit_key` set for a key. Reads only."""
        ...

    def drain_queue(self, queue: str, draining: bool = True) -> None:
        """Let a queue take in no new jobs (they are answered `draining`), except from running jobs
        and committed flows; the jobs that it has go on. Atomic; a repeat changes nothing.
        """
        ...


class BreakerVerbs(Protocol):
    """The verbs for breakers, which hold back the work of some tasks; see `domain.breaker`. The
    store counts attempts from `exchange(observed=…)`.
    """

    def declare_breakers(self, breakers: Sequence[BreakerRules]) -> None:
        """Set the rules that the app declares; a breaker that is known keeps its state. Atomic; a
        repeat changes nothing.
        """
        ...

    def breakers(self) -> tuple[BreakerStatus, ...]:
        """Every breaker, by name. Reads only."""
        ...

    def reset_breaker(self, name: str) -> bool:
        """Open or probing → closed, by a person's decision. Atomic; False if there is none."""
        ...


class RepairVerbs(Protocol):
    """The verbs by which a person lets stuck jobs go on, or moves them to another queue."""

    def repair(self, job: str, args: str, payload_version: int, secrets: Sequence[str]) -> State:
        """Quarantined → ready (or blocked, for its key) with these arguments; its counters stay.
        Atomic. Raises `MoveRefused` for a job in another state, `JobNotFound` for none.
        """
        ...

    def requeue(self, jobs: Sequence[str], queue: str) -> int:
        """Waiting → waiting in that queue, in the same order. Atomic, at most 1,000. The answer is
        how many were moved; jobs in other states, or in that queue already, stay.
        """
        ...


class ShapingVerbs(FlowVerbs, LimitVerbs, BreakerVerbs, RepairVerbs, Protocol):
    """All verbs that shape the work."""
