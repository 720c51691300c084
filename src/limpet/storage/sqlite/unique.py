"""Which job of a task holds a `unique`, and for how long; see `contract.shaping`."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from limpet.domain.cause import Replaced
from limpet.domain.job import NewJob
from limpet.domain.rules import Rules, UniqueUntil
from limpet.domain.state import FINAL, WAITING, State
from limpet.storage.contract.answers import Receipt
from limpet.storage.records.texts import rules_in, to_json
from limpet.storage.sql.rows import Row
from limpet.storage.sqlite.after import after, stop
from limpet.storage.sqlite.transaction import Transaction


def apart(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    """The jobs in parts. In each part no `unique` comes twice, so that of two jobs with the same
    one, the second finds the first in the store.
    """
    if all(job.unique is None for job in jobs):
        yield list(jobs)
        return
    part: list[NewJob] = []
    seen: set[tuple[str, str]] = set()
    for job in jobs:
        if job.unique is not None:
            pair = (job.task, job.unique)
            if pair in seen:
                yield part
                part, seen = [], set()
            seen.add(pair)
        part.append(job)
    yield part


def foreseen(tx: Transaction, jobs: Sequence[NewJob]) -> tuple[set[str], set[str]]:
    """The ids of jobs that will be duplicates, and of those that will replace a waiting job."""
    had = (holder for holder in _had(tx, jobs) if holder.holds)
    held = {(holder.task, holder.unique): holder.state in WAITING for holder in had}
    duplicates: set[str] = set()
    replacing: set[str] = set()
    for job in jobs:
        if job.unique is None:
            continue
        pair = (job.task, job.unique)
        if pair in held and not _replaces(job):
            duplicates.add(job.id)
            continue
        if held.get(pair):
            replacing.add(job.id)
        held[pair] = True
    return duplicates, replacing


def release_taken_over(tx: Transaction, jobs: Sequence[NewJob]) -> dict[str, Receipt]:
    """Release each `unique` that these jobs take over; the answer is those that are duplicates."""
    wanted = {(job.task, job.unique): job for job in jobs if job.unique is not None}
    duplicates: dict[str, Receipt] = {}
    for holder in _had(tx, jobs):
        job = wanted[holder.task, holder.unique]
        if holder.holds:
            if not _replaces(job):
                duplicates[job.id] = Receipt(holder.id, "duplicate", holder.state)
                continue
            if holder.state in WAITING:
                stop(tx, holder.row, Replaced(by=job.id))
                after(tx, [holder.row[0]])
        tx.run("unique", "let_go", n=holder.row[0])
    return duplicates


class _Holder(NamedTuple):
    """The last holder of a `unique`; `holds`: it still holds it; `row`: as `stop` takes it."""

    task: str
    unique: str
    id: str
    state: State
    holds: bool
    row: Row


def _had(tx: Transaction, jobs: Sequence[NewJob]) -> list[_Holder]:
    pairs = [(job.task, job.unique) for job in jobs if job.unique is not None]
    found = tx.run("unique", "holders", pairs=to_json(pairs)) if pairs else []
    return [_holder(tx, row) for row in found]


def _holder(tx: Transaction, found: Row) -> _Holder:
    (task, unique, id_, created_at, rules), row = found[:5], found[5:]
    state = State(row[2])
    return _Holder(
        task, unique, id_, state, _holds(state, created_at, rules_in(id_, rules), tx.now), row
    )


def _replaces(job: NewJob) -> bool:
    return job.rules is not None and job.rules.replaces


def take_again(tx: Transaction, n: int) -> bool:
    """Let a job that is reopened hold its `unique`; False, with nothing written, if another job
    holds it.
    """
    for other, state, created_at, rules in tx.run("unique", "other", n=n):
        if _holds(State(state), created_at, rules_in(other, rules), tx.now):
            return False
        tx.run("unique", "let_go", n=other)
    tx.run("unique", "take", n=n)
    return True


def _holds(state: State, created_at: int, rules: Rules, now: int) -> bool:
    match rules.unique_until:
        case UniqueUntil.STARTED:
            return state in WAITING
        case UniqueUntil.FINISHED:
            return state not in FINAL
        case UniqueUntil.TIME:
            return now < created_at + (rules.unique_for or 0)
