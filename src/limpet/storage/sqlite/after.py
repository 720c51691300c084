"""What follows when jobs have left running or have reached a final state, in the same step.

The one place for it, whichever verb moved them: its permit is given back, the turn of its key goes
to the next in line, its parent waits for one child less, and what belongs to a parent that is gone
goes with it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from limpet.domain.cause import Cause, ChildFailed, ParentGone
from limpet.domain.event import EventName
from limpet.domain.rules import ChildFailure
from limpet.domain.state import FINAL, Move, State
from limpet.storage.contract.store import CHUNK, Topic
from limpet.storage.records.texts import rules_in, to_json
from limpet.storage.sql.rows import Row
from limpet.storage.sqlite.keys import HAS, BecomingReady, become_ready, serve
from limpet.storage.sqlite.permits import give_back
from limpet.storage.sqlite.transaction import Transaction


class Ended(NamedTuple):
    """A child that its parent need not wait for any more; `fails`: and cannot run without."""

    id: str
    state: str
    parent: str
    fails: bool


class _Moved(NamedTuple):
    """A job that was moved, as it is now, if it has to do with others."""

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
        """Whether it needs its turn, or its place in the line, no more."""
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
    """Let those who waited for these jobs go on, or end with them.

    `ended`: children that end without being moved. `freed`: keys of which turns were given back
    with the move. `cascade`: go on with what belongs to parents that are gone, where an earlier
    step left off.
    """
    give_back(tx, "left")
    if tx.run("after", "bounded"):
        tx.bells.add(Topic.READY)
    freed = set(freed)
    room = CHUNK
    left = _read(tx, numbers)
    while left or ended or cascade:
        back = [each for each in left if each.gives_back]
        freed.update(each.key for each in back if each.key is not None)
        if back:
            tx.run("after", "give_back", numbers=to_json([each.n for each in back]))
        next_ = count_down(tx, [*ended, *_ended(left)])
        gone = [(each.n,) for each in left if each.pending and each.state in FINAL]
        tx.many("after", "gone", gone)
        tx.many("after", "waits_no_more", gone)
        if gone or cascade:
            stopped, touched = _stop_children(tx, room)
            room -= touched
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
        ended(each.id, each.state, each.parent, each.rules)
        for each in left
        if each.parent is not None and each.round == 1 and each.state in FINAL
    ]


def ended(id_: str, state: str, parent: str, rules: str | None) -> Ended:
    """A child that is finished, or was once and has been opened again."""
    failed = state in (State.FAILED, State.CANCELLED)
    return Ended(id_, state, parent, failed and _needed(id_, rules))


def _needed(id_: str, rules: str | None) -> bool:
    """Whether the parent cannot run without that child of those rules."""
    return rules_in(id_, rules).child_failure is ChildFailure.FAIL


def count_down(tx: Transaction, children: Sequence[Ended]) -> list[int]:
    """Parents wait for these no more: blocked → ready after the last one, → failed where one is
    needed that failed. The answer is the numbers of those that failed.
    """
    by_parent: dict[str, list[Ended]] = {}
    for each in children:
        by_parent.setdefault(each.parent, []).append(each)
    if not by_parent:
        return []
    ready: list[BecomingReady] = []
    failed: list[int] = []
    for id_, n, queue, pending, key, sort_key in tx.run(
        "after", "parents", ids=to_json(list(by_parent))
    ):
        lacking = next((each for each in by_parent[id_] if each.fails), None)
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


def _stop_children(tx: Transaction, room: int) -> tuple[list[int], int]:
    """Cancel children of parents that are gone; those that are cancelled, and how many were
    touched.
    """
    stopped: list[int] = []
    touched = 0
    while found := tx.one("after", "next_gone"):
        n, parent, passed = found
        if room == touched:
            tx.unfinished = True
            break
        rows = tx.run("after", "unfinished", parent=parent, passed=passed, limit=room - touched)
        touched += len(rows)
        cause = ParentGone(job=parent)
        for row in rows:
            if stop(tx, row, cause):
                stopped.append(row[0])
        if touched < room:
            tx.run("after", "gone_no_more", n=n)
        else:
            tx.run("after", "gone_so_far", n=n, passed=rows[-1][0])
    return stopped, touched


def stop(tx: Transaction, row: Row, cause: Cause) -> bool:
    """Waiting or quarantined → cancelled (True; `after` is still to be called for it); running →
    running with cancellation requested. The row is n, queue, state, session, token, claimed_at.
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
