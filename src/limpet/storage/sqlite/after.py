"""The consequences, in the same step, of jobs that leave running or reach a final state.

The one place for them, whichever verb moved the jobs: a job's permit is given back, the turn of its
key goes to the next job in line, its parent waits for one child less, and the descendants of a
parent that is gone are cancelled.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from limpet.domain.cause import Cause, ChildFailed, ParentGone
from limpet.domain.event import EventName
from limpet.domain.rules import ChildFailure
from limpet.domain.state import FINAL, Move, State
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import CHUNK
from limpet.storage.records.texts import rules_in, to_json
from limpet.storage.sql.rows import Row
from limpet.storage.sqlite.keys import HAS, BecomingReady, become_ready, serve
from limpet.storage.sqlite.permits import give_back
from limpet.storage.sqlite.transaction import Transaction


class Ended(NamedTuple):
    """A child for which its parent waits no longer; `fails`: the parent cannot run without it."""

    id: str
    state: str
    parent: str
    fails: bool


class _Moved(NamedTuple):
    """A job that was moved, as it is now, if it has a turn, a parent or children."""

    n: int
    id: str
    state: State
    key: str | None
    turn: int
    parent: str | None
    round: int
    pending: int
    rules: str | None

    @property
    def gives_back(self) -> bool:
        """Whether it no longer needs its turn, or its place in the line."""
        if self.turn == HAS and self.state is State.SCHEDULED:
            return not rules_in(self.id, self.rules).key_strict
        kept = (State.READY, State.RUNNING) if self.turn == HAS else (State.BLOCKED,)
        return self.turn > 0 and self.state not in kept


def after(
    tx: Transaction,
    numbers: Iterable[int],
    ended: Sequence[Ended] = (),
    freed: Iterable[str] = (),
    *,
    cascade: bool = False,
) -> None:
    """Let the jobs that waited for these jobs go on, or end with them.

    `ended`: children that end without being moved. `freed`: keys of which the move itself gave
    turns back. `cascade`: continue to cancel the descendants of parents that are gone, where an
    earlier step stopped.
    """
    give_back(tx, "left")
    if tx.run("after", "bounded"):
        tx.bells.add(Topic.READY)
    freed = set(freed)
    budget = CHUNK
    left = _read(tx, numbers)
    while left or ended or cascade:
        back = [job for job in left if job.gives_back]
        freed.update(job.key for job in back if job.key is not None)
        if back:
            tx.run("after", "give_back", numbers=to_json([job.n for job in back]))
        next_ = count_down(tx, [*ended, *_ended(left)])
        gone = [(job.n,) for job in left if job.pending and job.state in FINAL]
        tx.many("after", "gone", gone)
        tx.many("after", "waits_no_more", gone)
        if gone or cascade:
            stopped, touched = _stop_children(tx, budget)
            budget -= touched
            next_ += stopped
        left, ended, cascade = _read(tx, next_), (), False
    if freed:
        serve(tx, freed)


def _read(tx: Transaction, numbers: Iterable[int]) -> list[_Moved]:
    listed = list(numbers)
    if not listed:
        return []
    rows = tx.run("after", "left", numbers=to_json(listed))
    return [_Moved(row[0], row[1], State(row[2]), *row[3:]) for row in rows]


def _ended(left: Iterable[_Moved]) -> list[Ended]:
    return [
        ended(job.id, job.state, job.parent, job.rules)
        for job in left
        if job.parent is not None and job.round == 1 and job.state in FINAL
    ]


def ended(id_: str, state: str, parent: str, rules: str | None) -> Ended:
    """A child that is finished, or was finished once and has been opened again."""
    failed = state in (State.FAILED, State.CANCELLED)
    return Ended(id_, state, parent, failed and _needed(id_, rules))


def _needed(id_: str, rules: str | None) -> bool:
    """Whether the parent cannot run without the child that has these rules."""
    return rules_in(id_, rules).child_failure is ChildFailure.FAIL


def count_down(tx: Transaction, children: Sequence[Ended]) -> list[int]:
    """Count parents down by these children: blocked → ready after the last child, → failed if a
    child failed that the parent needs. The answer is the numbers of parents that failed.
    """
    by_parent: dict[str, list[Ended]] = {}
    for child in children:
        by_parent.setdefault(child.parent, []).append(child)
    if not by_parent:
        return []
    ready: list[BecomingReady] = []
    failed: list[int] = []
    for id_, n, queue, pending, key, sort_key in tx.run(
        "after", "parents", ids=to_json(list(by_parent))
    ):
        lacking = next((child for child in by_parent[id_] if child.fails), None)
        if lacking is not None:
            _abandon(tx, n, queue, ChildFailed(job=lacking.id, state=lacking.state))
            failed.append(n)
            continue
        still = max(0, pending - len(by_parent[id_]))
        tx.run("after", "pending", n=n, pending=still)
        if still == 0:
            ready.append(BecomingReady(n, queue, State.BLOCKED, key, 0, sort_key))
    become_ready(tx, ready, Move.UNBLOCK)
    return failed


def _abandon(tx: Transaction, n: int, queue: str, cause: Cause) -> None:
    tx.run("after", "abandon", n=n, now=tx.now)
    tx.many("settle", "error", [(n, to_json(cause.record()))])
    tx.record(n, EventName.FAILED, cause=cause)
    tx.moved(queue, Move.ABANDON, State.BLOCKED, State.FAILED)


def _stop_children(tx: Transaction, budget: int) -> tuple[list[int], int]:
    """Cancel children of parents that are gone. The answer: those that are cancelled now, and how
    many were looked at.
    """
    stopped: list[int] = []
    touched = 0
    while found := tx.one("after", "next_gone"):
        n, parent, passed = found
        if budget == touched:
            tx.unfinished = True
            break
        rows = tx.run("after", "unfinished", parent=parent, passed=passed, limit=budget - touched)
        touched += len(rows)
        cause = ParentGone(job=parent)
        for row in rows:
            if stop(tx, row, cause):
                stopped.append(row[0])
        if touched < budget:
            tx.run("after", "gone_no_more", n=n)
        else:
            tx.run("after", "gone_so_far", n=n, passed=rows[-1][0])
    return stopped, touched


def stop(tx: Transaction, row: Row, cause: Cause) -> bool:
    """Waiting or quarantined → cancelled (answer True: the caller must call `after` for the job);
    running → running with cancellation requested. The row: n, queue, state, session, token,
    claimed_at.
    """
    n, queue, state, session, token, claimed_at = row
    source = State(state)
    if source is State.RUNNING:
        tx.run("control", "request", n=n, now=tx.now)
        tx.bells.add(Topic.CANCEL)
        tx.record(
            n,
            EventName.CANCEL_REQUESTED,
            session=session,
            token=token,
            cause=cause,
            claimed_at=claimed_at,
        )
        return False
    tx.run("control", "cancel", n=n, now=tx.now)
    tx.many("session", "forget_block", [(n,)])
    tx.many("settle", "error", [(n, to_json(cause.record()))])
    tx.record(n, EventName.CANCELLED, cause=cause)
    tx.moved(queue, Move.CANCEL, source, State.CANCELLED)
    return True
