"""(nothing) → ready or scheduled, or blocked for a key or for children.

Plain jobs take the shortest way, the SQL function `enqueue`. Jobs with rules, a key, a unique or a
parent, and jobs for drained queues, go through `admit`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import psycopg

from limpet.domain.errors import LeaseLost, UnknownParent
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.session import Standing
from limpet.domain.state import State
from limpet.storage.contract.answers import Receipt
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.caps import are_one, none_written, over_cap
from limpet.storage.contract.refusals import of_texts
from limpet.storage.postgres.fence import check
from limpet.storage.postgres.lists import column, nullable
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.texts import rules_text, strict_json

_DRAINING = "LP005"
_NO_PARENT = "LP006"


class Draining(Exception):
    """One of the queues takes in no new jobs; nothing was written, and `admit` finds out which."""


def is_plain(jobs: Sequence[NewJob]) -> bool:
    """Whether all jobs are plain: without rules, key, unique and parent."""
    return not any(
        job.rules is not None or job.key is not None or job.unique is not None
        or job.parent is not None
        for job in jobs
    )  # fmt: skip


def enqueue(
    tx: Transaction,
    jobs: Sequence[NewJob],
    columns: Sequence[str | None] = (),
    *,
    fenced: bool = False,
) -> list[Receipt]:
    """Write new plain jobs; see `EnqueueVerbs.enqueue`.

    `columns`: the result of `written`, if it was called before. `fenced`: a running job enqueues.
    """
    if not jobs:
        return []
    options = tx.wall, None, fenced, tx.again, tx.may_ring()
    try:
        ((at, known, rung),) = tx.call("enqueue", *(columns or written(jobs)), *options)
    except psycopg.Error as error:
        if error.sqlstate == _DRAINING:
            raise Draining from None
        raise
    if not rung:
        tx.rings.add(Topic.READY)
    return receipts(jobs, at, known)


def admit(
    tx: Transaction,
    jobs: Sequence[NewJob],
    *,
    fenced: bool = False,
    flow: bool = False,
    all_or_none: bool = False,
) -> list[Receipt]:
    """Write new jobs of every kind. `flow`: the jobs belong to a committed flow."""
    if not jobs:
        return []
    options = tx.wall, None, fenced, flow, are_one(jobs, all_or_none), tx.may_ring()
    try:
        ((at, refused, blocked, rung),) = tx.call("admit", *written_whole(jobs), *options)
    except psycopg.Error as error:
        raise unknown_parent(error) or error from None
    if not rung:
        tx.rings.add(Topic.READY)
    if refused:
        tx.rings.add(Topic.DONE)  # a job may have been replaced
    return receipts_of_all(jobs, at, refused, blocked)


def unknown_parent(error: psycopg.Error) -> UnknownParent | None:
    """The error as `UnknownParent`, if that is what it is."""
    if error.sqlstate != _NO_PARENT:
        return None
    message = error.diag.message_primary or str(error).partition("\n")[0]
    return UnknownParent(*msgspec.json.decode(message, type=tuple[str, str]))


def enqueue_capped(
    tx: Transaction,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int],
    all_or_none: bool,
    *,
    fenced: bool = False,
) -> list[Receipt]:
    """Write the new jobs that the caps of their queues leave places for."""
    lock_queues(tx, {job.queue for job in jobs} & caps.keys())
    ((there, waiting),) = tx.call("queue_lengths", *length_params(jobs, caps))
    known = {id_: State(state) for id_, state in (there or {}).items()}
    duplicates = uniques(jobs, tx.wall)
    ((held,),) = tx.call("held_uniques", *duplicates) if duplicates else ((None,),)
    uncounted = dict.fromkeys(held or (), State.READY) | known
    refused = over_cap(jobs, caps, uncounted, lambda queue: int(waiting[queue]))
    if refused and are_one(jobs, all_or_none):
        return none_written(jobs, known, refused)
    wanted = [job for job in jobs if job.id not in refused]
    answers = admit(tx, wanted, fenced=fenced, all_or_none=all_or_none)
    receipt_of = dict(zip((job.id for job in wanted), answers, strict=True))
    return [refused.get(job.id) or receipt_of[job.id] for job in jobs]


def lock_queues(tx: Transaction, queues: Iterable[str]) -> None:
    """Wait until no other transaction counts the free places of these queues."""
    for queue in sorted(queues):
        tx.run("enqueue", "alone", queue=f"{tx.quoted} {queue}")


def length_params(jobs: Sequence[NewJob], caps: Mapping[str, int]) -> tuple[str, str]:
    """The parameters of the SQL function `queue_lengths`."""
    queues = sorted({job.queue for job in jobs} & caps.keys())
    return column([job.id for job in jobs]), column(queues)


def uniques(jobs: Sequence[NewJob], wall: int | None) -> tuple[str, str, str, int | None] | None:
    """The parameters of the SQL function `held_uniques`; None where no job has a `unique`."""
    named = [(job.id, job.task, job.unique) for job in jobs if job.unique is not None]
    if not named:
        return None
    ids, tasks, names = zip(*named, strict=True)
    return column(ids), column(tasks), column(names), wall


def enqueue_under(
    tx: Transaction,
    fence: Lease,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int] | None,
    all_or_none: bool,
) -> list[Receipt] | LeaseLost:
    """Write new jobs while the lease of the attempt that enqueues them holds.

    A lost lease is returned, not raised: an exception would roll back the event on the timeline.
    """
    if caps:
        # First, so that this transaction does not hold the job's row while it waits.
        lock_queues(tx, {job.queue for job in jobs} & caps.keys())
    if not may_enqueue(tx, fence):
        tx.call("pass", False)
        return LeaseLost(*fence)
    if caps:
        return enqueue_capped(tx, jobs, caps, all_or_none, fenced=True)
    return (enqueue if is_plain(jobs) else admit)(tx, jobs, fenced=True)


def may_enqueue(tx: Transaction, fence: Lease) -> bool:
    """Whether an attempt still holds its lease; a lost lease is noted on the timeline."""
    ((standing,),) = tx.call("standing", fence.session, tx.lease)
    # Stricter than for a settlement: past its moment the job may start elsewhere at any time.
    alive = standing in (Standing.LIVE, Standing.DRAINING)
    job, session, token = fence
    if alive and tx.run("fence", "keep", job=job, session=session, token=token):
        return True
    check(tx, session, [fence], ["enqueue jobs from"], alive=False)
    return False


@of_texts
def written(jobs: Sequence[NewJob]) -> tuple[str | None, ...]:
    """The jobs as parameters of `enqueue`: a column for each field, each id once."""
    if not jobs:
        return ()
    once = jobs if len({job.id for job in jobs}) == len(jobs) else _once(jobs)
    (ids, tasks, args, queues, options, secrets, priorities, scheduled, expires, deadlines, keys,
     uniques, parents, roots, weights, versions, _) = zip(*once, strict=True)  # fmt: skip
    return (
        column(ids),
        column([str(int(id_[-8:], 32)) for id_ in ids]),
        column(_one_for_all(tasks)),
        column(_one_for_all(queues)),
        column(args),
        column(_one_for_all(options)),
        nullable(strict_json(paths) if paths else None for paths in secrets),
        nullable(priority or None for priority in priorities),
        nullable(scheduled),
        nullable(expires),
        nullable(deadlines),
        nullable(keys),
        nullable(uniques),
        nullable(parents),
        nullable(roots),
        nullable(weights),
        nullable(None if version == 1 else version for version in versions),
    )


def written_whole(jobs: Sequence[NewJob]) -> tuple[str | None, ...]:
    """The jobs as parameters of `admit`: the columns of `written`, and one of rules."""
    once = jobs if len({job.id for job in jobs}) == len(jobs) else _once(jobs)
    return *written(once), nullable(rules_text(job.rules) for job in once)


def _one_for_all(values: Sequence[str]) -> Sequence[str]:
    return values[:1] if values.count(values[0]) == len(values) else values


def _once(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    first: dict[str, NewJob] = {}
    for job in jobs:
        first.setdefault(job.id, job)
    return list(first.values())


def receipts(jobs: Sequence[NewJob], at: int, known: Any) -> list[Receipt]:
    """The answer to `enqueue`: jobs in `known` existed before, the others were written at `at`."""
    there: dict[str, str] = known or {}
    if not there and all(job.scheduled_for is None for job in jobs):
        return Receipt.all_new([job.id for job in jobs], State.READY)
    return [
        Receipt(job.id, "already", State(there[job.id]))
        if job.id in there
        else Receipt(job.id, "new", _later_or_ready(job, at))
        for job in jobs
    ]


def receipts_of_all(jobs: Sequence[NewJob], at: int, refused: Any, blocked: Any) -> list[Receipt]:
    """The answer to `admit`: which jobs were refused and why, and the states of the others."""
    no: dict[str, Any] = refused or {}
    waiting = set(blocked or ())
    answers = []
    for job in jobs:
        if job.id in no:
            outcome, other, state = no[job.id]
            answers.append(Receipt(other, outcome, None if state is None else State(state)))
        else:
            state = State.BLOCKED if job.id in waiting else _later_or_ready(job, at)
            answers.append(Receipt(job.id, "new", state))
    return answers


def _later_or_ready(job: NewJob, at: int) -> State:
    later = job.scheduled_for is not None and job.scheduled_for > at
    return State.SCHEDULED if later else State.READY
