"""(nothing) → ready, scheduled or blocked, for new jobs with a key, a unique, a parent or rules."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from limpet.domain.errors import UnknownParent
from limpet.domain.job import NewJob
from limpet.domain.rules import NO_RULES
from limpet.domain.state import FINAL, Move, State
from limpet.storage.contract.answers import Receipt
from limpet.storage.records.texts import rules_text, to_json
from limpet.storage.sqlite.after import Ended, after, ended
from limpet.storage.sqlite.columns import job_row, payload_row
from limpet.storage.sqlite.keys import HAS, NONE, WAITS, TurnRequest, request_turns, serve
from limpet.storage.sqlite.transaction import Transaction
from limpet.storage.sqlite.unique import apart, release_taken_over

# Columns of `enqueue.insert_shaped`.
_STATE, _SORT_KEY, _TURN = 4, 6, 18


def take_in(
    tx: Transaction,
    last: int,
    jobs: Sequence[NewJob],
    known: Mapping[str, State],
    *,
    flow: bool = False,
) -> dict[str, Receipt]:
    """Write the jobs that are not `known`, numbered from `last` + 1.

    A parent is in the store, or comes with its children; in a `flow` it may also come after its
    children, or be gone.
    """
    by_id = {job.id: job for job in reversed(jobs)}
    fresh = [job for id_, job in reversed(by_id.items()) if id_ not in known]
    if not flow:
        _check_parents(tx, fresh)
    receipts = {id_: Receipt(id_, "already", state) for id_, state in known.items()}
    for part in apart(fresh):
        duplicates = release_taken_over(tx, part)
        wanted = [job for job in part if job.id not in duplicates] if duplicates else part
        receipts |= duplicates | _write(tx, last, wanted)
        last += len(wanted)
    if flow or any(job.parent is not None for job in jobs):
        written = [job for job in fresh if receipts[job.id].outcome == "new"]
        _even_out(tx, jobs, written, receipts, flow=flow)
    return receipts


def _check_parents(tx: Transaction, fresh: Sequence[NewJob]) -> None:
    """Raise `UnknownParent` if a parent is neither among `fresh` nor waits for children."""
    ids = {job.id for job in fresh}
    named = {job.parent: job for job in fresh if job.parent is not None and job.parent not in ids}
    if named:
        rows = tx.run("after", "parents", ids=to_json(list(named)))
        for parent in named.keys() - {row[0] for row in rows}:
            raise UnknownParent(named[parent].id, parent)


def _write(tx: Transaction, last: int, jobs: Sequence[NewJob]) -> dict[str, Receipt]:
    rows: list[list[Any]] = []
    requests = []
    for n, job in enumerate(jobs, start=last + 1):
        rules = job.rules or NO_RULES
        sole = int(job.unique is not None)
        row: list[Any] = [*job_row(tx, n, job), NONE, rules.children, sole, rules_text(job.rules)]
        rows.append(row)
        if rules.children:
            row[_STATE] = "blocked"
        elif job.key is not None and row[_STATE] == "ready":
            requests.append(TurnRequest(job.key, row[_SORT_KEY], n, rules))
    given, busy = request_turns(tx, requests)
    for request in requests:
        row = rows[request.n - last - 1]
        row[_STATE], row[_TURN] = ("ready", HAS) if request.n in given else ("blocked", WAITS)
    tx.many("enqueue", "insert_shaped", rows)
    tx.many(
        "enqueue",
        "insert_payload",
        (payload_row(n, job) for n, job in enumerate(jobs, start=last + 1)),
    )
    for (queue, state), count in Counter((row[3], row[_STATE]) for row in rows).items():
        tx.moved(queue, Move.ENQUEUE, None, State(state), count)
    for n in serve(tx, busy) if busy else ():
        if n > last:
            rows[n - last - 1][_STATE] = "ready"
    states = {state: State(state) for state in {row[_STATE] for row in rows}}
    return {row[1]: Receipt(row[1], "new", states[row[_STATE]]) for row in rows}


def _even_out(
    tx: Transaction,
    jobs: Sequence[NewJob],
    written: Sequence[NewJob],
    receipts: Mapping[str, Receipt],
    *,
    flow: bool,
) -> None:
    """Let no parent wait for a child that will not come, or that came and ended before it."""
    for job in written:
        parent = receipts.get(job.parent or "")
        if parent is not None and parent.outcome == "duplicate" and not flow:
            raise UnknownParent(job.id, job.parent or "")
    ids = {job.id for job in written}
    missing = [
        job
        for job in jobs
        if job.parent is not None and job.id not in ids and (flow or job.parent in ids)
    ]
    over = _not_awaited(tx, missing) if missing else []
    gone: Collection[tuple[int]] = ()
    if flow:
        waiting = [job.id for job in written if (job.rules or NO_RULES).children]
        if waiting:
            over += _over_before(tx, waiting)
        named = {job.parent for job in written if job.parent is not None} - ids
        if named:
            gone = [(n,) for (n,) in tx.run("flow", "gone", ids=to_json(sorted(named)))]
            tx.many("after", "gone", gone)
    if over or gone:
        after(tx, (), over, cascade=bool(gone))


def _not_awaited(tx: Transaction, jobs: Sequence[NewJob]) -> list[Ended]:
    """The children, among jobs that were not written, that will not count down their parent:
    duplicates, and jobs in the store that are finished or have another parent.
    """
    there = {
        id_: (parent, state, round_, rules)
        for id_, parent, state, round_, rules in tx.run(
            "flow", "there", ids=to_json([job.id for job in jobs])
        )
    }
    over: list[Ended] = []
    for job in jobs:
        assert job.parent is not None
        parent, state, round_, rules = there.get(job.id, (None, State.CANCELLED, 1, None))
        if parent != job.parent:
            over.append(Ended(job.id, state, job.parent, fails=False))
        elif round_ > 1 or state in FINAL:
            over.append(ended(job.id, state, job.parent, rules))
    return over


def _over_before(tx: Transaction, parents: Sequence[str]) -> list[Ended]:
    rows = tx.run("flow", "over", parents=to_json(list(parents)))
    return [ended(id_, state, parent, rules) for id_, state, parent, rules in rows]
