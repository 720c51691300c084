"""(nothing) → ready or scheduled."""

from collections.abc import Mapping, Sequence
from typing import Any

from limpet.domain.errors import LeaseLost
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.session import Standing
from limpet.domain.state import State
from limpet.storage.answers import Receipt
from limpet.storage.base import Topic
from limpet.storage.caps import none_written, over_cap
from limpet.storage.postgres.fence import check
from limpet.storage.postgres.lists import column, nullable
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.texts import to_json


def enqueue(tx: Transaction, jobs: Sequence[NewJob], *, fenced: bool = False) -> list[Receipt]:
    """Write new jobs; see `EnqueueVerbs.enqueue`. `fenced`: a job that runs asks for it."""
    if not jobs:
        return []
    options = tx.wall, None, fenced, tx.again, tx.may_ring()
    ((at, known, rung),) = tx.call("enqueue", *written(jobs), *options)
    if not rung:
        tx.rings.add(Topic.READY)
    return receipts(jobs, at, known)


def enqueue_capped(
    tx: Transaction,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int],
    all_or_none: bool,
    *,
    fenced: bool = False,
) -> list[Receipt]:
    """Write those new jobs for which there is room."""
    _in_turn(tx, jobs, caps)
    ((there, waiting),) = tx.call("room", *asked(jobs, caps))
    known = {id_: State(state) for id_, state in (there or {}).items()}
    refused = over_cap(jobs, caps, known, lambda queue: int(waiting[queue]))
    if refused and all_or_none:
        return none_written(jobs, known, refused)
    wanted = [job for job in jobs if job.id not in refused]
    told = {each.job: each for each in enqueue(tx, wanted, fenced=fenced)}
    return [refused.get(job.id) or told[job.id] for job in jobs]


def _in_turn(tx: Transaction, jobs: Sequence[NewJob], caps: Mapping[str, int]) -> None:
    for queue in sorted({job.queue for job in jobs} & caps.keys()):
        tx.run("enqueue", "alone", queue=f"{tx.quoted} {queue}")


def asked(jobs: Sequence[NewJob], caps: Mapping[str, int]) -> tuple[str, str]:
    """The parameters of the function `room`."""
    queues = sorted({job.queue for job in jobs} & caps.keys())
    return column([job.id for job in jobs]), column(queues)


def enqueue_under(
    tx: Transaction,
    fence: Lease,
    jobs: Sequence[NewJob],
    caps: Mapping[str, int] | None,
    all_or_none: bool,
) -> list[Receipt] | LeaseLost:
    """Write new jobs while the lease of the attempt that enqueues them holds.

    A lost lease is answered, not raised: what a verb raises is undone, and with it would go the
    complaint on the timeline.
    """
    if caps:
        _in_turn(tx, jobs, caps)  # first: while it waits, nobody waits for the job's row
    ((where,),) = tx.call("standing", fence.session, tx.lease)
    # Stricter than for a settlement: past its moment the job may start elsewhere any time now.
    alive = where in (Standing.LIVE, Standing.DRAINING)
    job, session, token = fence
    if not alive or not tx.run("fence", "keep", job=job, session=session, token=token):
        check(tx, session, [fence], ["enqueue jobs from"], alive=False)
        tx.call("pass", False)
        return LeaseLost(*fence)
    if caps:
        return enqueue_capped(tx, jobs, caps, all_or_none, fenced=True)
    return enqueue(tx, jobs, fenced=True)


def written(jobs: Sequence[NewJob]) -> tuple[str | None, ...]:
    """The jobs as parameters of the function, each id once, the fields in columns."""
    once = jobs if len({job.id for job in jobs}) == len(jobs) else _once(jobs)
    (ids, tasks, args, queues, options, secrets, priorities, scheduled, expires, deadlines, keys,
     uniques, parents, roots, weights, versions) = zip(*once, strict=True)  # fmt: skip
    return (
        column(ids),
        column([str(int(id_[-8:], 32)) for id_ in ids]),
        column(_one_for_all(tasks)),
        column(_one_for_all(queues)),
        column(args),
        column(_one_for_all(options)),
        nullable(to_json(paths) if paths else None for paths in secrets),
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


def _one_for_all(values: Sequence[str]) -> Sequence[str]:
    return values[:1] if values.count(values[0]) == len(values) else values


def _once(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    first: dict[str, NewJob] = {}
    for job in jobs:
        first.setdefault(job.id, job)
    return list(first.values())


def receipts(jobs: Sequence[NewJob], at: int, known: Any) -> list[Receipt]:
    """The answer: what was there before, and what was written at that time."""
    there: dict[str, str] = known or {}
    if not there and all(job.scheduled_for is None for job in jobs):
        return Receipt.all_new([job.id for job in jobs], State.READY)
    told = []
    for job in jobs:
        if job.id in there:
            told.append(Receipt(job.id, "already", State(there[job.id])))
        else:
            later = job.scheduled_for is not None and job.scheduled_for > at
            told.append(Receipt(job.id, "new", State.SCHEDULED if later else State.READY))
    return told
