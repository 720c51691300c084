"""What a person does to many jobs at once: retry, discard, move to another queue.

Each job is a step of its own (when jobs are moved, a thousand are one step), and the step checks
its job again: a job that has changed since it was chosen is skipped, or refused with the reason. If
the operation is stopped halfway, the other jobs are unchanged, and a repeat does the rest. Nothing
is ever deleted.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from limpet.domain.errors import JobNotFound, MoveRefused, QueueDraining
from limpet.domain.job import Job
from limpet.domain.queue import checked_name
from limpet.domain.state import FINAL, WAITING, State
from limpet.ops.selection import Readable, Selection
from limpet.storage.contract.shaping import RepairVerbs
from limpet.storage.contract.store import ControlVerbs

# How many refusals an answer lists; the others are only counted.
MOST_REFUSALS = 20

# In the order of a job's life, so that a job which changes state while this runs is met again.
_TO_DISCARD = (
    State.SCHEDULED,
    State.BLOCKED,
    State.READY,
    State.RUNNING,
    State.QUARANTINED,
    State.FAILED,
)
_TO_MOVE = (State.SCHEDULED, State.BLOCKED, State.READY)


class Workable(Readable, ControlVerbs, RepairVerbs, Protocol):
    """The verbs of a store that bulk operations need."""


class RefusedJob(Struct, frozen=True, kw_only=True):
    """A job that the operation could not be done to."""

    id: str
    why: str


class BulkAnswer(Struct, frozen=True, kw_only=True):
    """What became of the jobs that were chosen.

    `matched`: how many jobs were chosen. `done`: to how many it was done. `asked`: how many running
    ones were asked to stop. `skipped`: reason → how many needed nothing, or had changed meanwhile.
    `refused`: to how many it could not be done; `refusals` lists the first of them. `dry_run`:
    nothing was written; `done` and `asked` are what would have been.
    """

    dry_run: bool
    matched: int
    done: int
    asked: int
    skipped: dict[str, int]
    refused: int
    refusals: tuple[RefusedJob, ...]


@dataclass(slots=True)
class Tally:
    """The same numbers while the operation runs."""

    dry_run: bool = False
    done: int = 0
    asked: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    refusals: list[RefusedJob] = field(default_factory=list)

    @property
    def matched(self) -> int:
        """How many jobs were chosen so far."""
        return self.done + self.asked + self.skipped.total() + self.refused

    def refuse(self, job: str, why: str) -> None:
        self.refused += 1
        if len(self.refusals) < MOST_REFUSALS:
            self.refusals.append(RefusedJob(id=job, why=why))

    def answer(self) -> BulkAnswer:
        """The answer, with the numbers as they are now."""
        return BulkAnswer(
            dry_run=self.dry_run,
            matched=self.matched,
            done=self.done,
            asked=self.asked,
            skipped=dict(self.skipped),
            refused=self.refused,
            refusals=tuple(self.refusals),
        )


OnProgress = Callable[[Tally], None]


def ignore_progress(tally: Tally) -> None:
    """Do nothing with the progress."""


def retry_many(
    store: Workable,
    which: Selection,
    *,
    dry_run: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> BulkAnswer:
    """Open a new round of finished jobs: the failed ones, unless a state is named."""
    chosen = which if which.state is not None else which.within(State.FAILED)
    tally = Tally(dry_run)
    for jobs in chosen.pages(store):
        for job in jobs:
            if job.state not in FINAL:
                tally.skipped[f"{job.state}, not finished"] += 1
            elif dry_run:
                tally.done += 1
            else:
                with _BulkStep(tally, job):
                    store.retry(job.id, job.round)
                    tally.done += 1
        on_progress(tally)
    return tally.answer()


def discard_many(
    store: Workable,
    which: Selection,
    reason: str = "",
    *,
    dry_run: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> BulkAnswer:
    """Cancel jobs that wait or are quarantined, ask running ones to stop, and let no failed one be
    relaunched; the jobs and their history stay until their retention is over.
    """
    tally = Tally(dry_run)
    for jobs in _by_life(store, which, _TO_DISCARD):
        for job in jobs:
            if job.state in FINAL and job.relaunch_at is None:
                tally.skipped[f"already {job.state}"] += 1
            elif job.cancel_requested_at is not None:
                tally.skipped["already asked to stop"] += 1
            elif dry_run:
                tally.asked += job.state is State.RUNNING
                tally.done += job.state is not State.RUNNING
            else:
                with _BulkStep(tally, job):
                    _discarded(tally, job, store.cancel(job.id, reason))
        on_progress(tally)
    return tally.answer()


def _discarded(tally: Tally, job: Job, now: State) -> None:
    if now is State.RUNNING:
        tally.asked += 1
    elif now is State.CANCELLED or (now is State.FAILED and job.state is State.FAILED):
        tally.done += 1
    else:
        tally.skipped[f"{now} meanwhile"] += 1


def requeue_many(
    store: Workable,
    which: Selection,
    to: str,
    *,
    dry_run: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> BulkAnswer:
    """Move jobs that wait to another queue, in the order that they had."""
    queue = checked_name(to)
    if any(view.draining for view in store.queues() if view.name == queue):
        raise QueueDraining(queue)
    tally = Tally(dry_run)
    for jobs in _by_life(store, which, _TO_MOVE):
        going = []
        for job in jobs:
            if job.queue == queue:
                tally.skipped[f"already in {queue}"] += 1
            elif job.state not in WAITING:
                tally.skipped[f"{job.state}, not waiting"] += 1
            else:
                going.append(job.id)
        moved = len(going) if dry_run or not going else store.requeue(going, queue)
        tally.done += moved
        if moved < len(going):
            tally.skipped["moved on meanwhile"] += len(going) - moved
        on_progress(tally)
    return tally.answer()


def _by_life(store: Readable, which: Selection, states: tuple[State, ...]) -> Iterator[list[Job]]:
    """The chosen jobs, state by state, unless the selection itself names a state or a parent."""
    if which.state is not None or which.parent is not None:
        yield from which.pages(store)
        return
    for state in states:
        yield from which.within(state).pages(store)


class _BulkStep:
    """The step of one job: counts what the store refuses, so that the other jobs go on."""

    def __init__(self, tally: Tally, job: Job) -> None:
        self._tally = tally
        self._job = job.id

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, JobNotFound):
            self._tally.skipped["pruned meanwhile"] += 1
        elif isinstance(error, MoveRefused):
            self._tally.refuse(self._job, str(error))
        else:
            return False
        return True
