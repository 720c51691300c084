"""The only table of job states and of the moves between them."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a job is; it is in exactly one of these."""

    SCHEDULED = "scheduled"
    READY = "ready"
    BLOCKED = "blocked"
    RUNNING = "running"
    QUARANTINED = "quarantined"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


WAITING = frozenset({State.SCHEDULED, State.READY, State.BLOCKED})
FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})


class Move(StrEnum):
    """Why a job goes from one state to another."""

    ENQUEUE = "enqueue"
    PROMOTE = "promote"
    BLOCK = "block"
    UNBLOCK = "unblock"
    CLAIM = "claim"
    COMPLETE = "complete"
    RETRY = "retry"
    SNOOZE = "snooze"
    FAIL = "fail"
    QUARANTINE = "quarantine"
    RELEASE = "release"
    ORPHAN = "orphan"
    RECOVER = "recover"
    CANCEL = "cancel"
    EXPIRE = "expire"
    REOPEN = "reopen"
    REPAIR = "repair"
    FAN_OUT = "fan_out"
    ABANDON = "abandon"
    REQUEUE = "requeue"


@dataclass(frozen=True, slots=True)
class Arrow:
    """One allowed move; `source` is None for a job that did not exist before."""

    move: Move
    source: State | None
    target: State


def _arrows(move: Move, sources: list[State | None], targets: list[State]) -> list[Arrow]:
    return [Arrow(move, source, target) for source in sources for target in targets]


_S = State
_WAITING: list[State | None] = [_S.SCHEDULED, _S.READY, _S.BLOCKED]
_FINAL: list[State | None] = [_S.SUCCEEDED, _S.FAILED, _S.CANCELLED]

TABLE: tuple[Arrow, ...] = (
    # BLOCKED here and below: the job waits for its children, or for a turn of its key.
    *_arrows(Move.ENQUEUE, [None], [_S.READY, _S.SCHEDULED, _S.BLOCKED]),
    *_arrows(Move.PROMOTE, [_S.SCHEDULED], [_S.READY, _S.BLOCKED]),
    *_arrows(Move.BLOCK, [_S.READY, _S.BLOCKED], [_S.BLOCKED]),
    *_arrows(Move.FAN_OUT, [_S.RUNNING], [_S.BLOCKED, _S.CANCELLED]),
    *_arrows(Move.UNBLOCK, [_S.BLOCKED], [_S.READY]),
    *_arrows(Move.CLAIM, [_S.READY], [_S.RUNNING]),
    *_arrows(Move.COMPLETE, [_S.RUNNING], [_S.SUCCEEDED]),
    # A retry that is no longer wanted, or that would come after the deadline, ends the job.
    *_arrows(Move.RETRY, [_S.RUNNING], [_S.SCHEDULED, _S.FAILED, _S.CANCELLED]),
    *_arrows(Move.SNOOZE, [_S.RUNNING], [_S.SCHEDULED, _S.FAILED, _S.CANCELLED]),
    *_arrows(Move.FAIL, [_S.RUNNING], [_S.FAILED]),
    *_arrows(Move.QUARANTINE, [_S.RUNNING], [_S.QUARANTINED]),
    *_arrows(Move.RELEASE, [_S.RUNNING], [_S.READY, _S.CANCELLED]),
    # At a cap of orphans or strikes the job fails instead of going round again.
    *_arrows(Move.ORPHAN, [_S.RUNNING], [_S.READY, _S.FAILED, _S.CANCELLED]),
    *_arrows(Move.RECOVER, [_S.RUNNING], [_S.READY, _S.FAILED, _S.CANCELLED]),
    *_arrows(Move.CANCEL, [*_WAITING, _S.RUNNING, _S.QUARANTINED], [_S.CANCELLED]),
    # `expires` drops a job that did not start in time; `deadline` fails one.
    *_arrows(Move.EXPIRE, _WAITING, [_S.CANCELLED, _S.FAILED]),
    *_arrows(Move.REOPEN, _FINAL, [_S.READY, _S.BLOCKED]),
    *_arrows(Move.REPAIR, [_S.QUARANTINED], [_S.READY, _S.BLOCKED]),
    # A child failed, and without it the parent may not run.
    *_arrows(Move.ABANDON, [_S.BLOCKED], [_S.FAILED]),
    # To another queue; the job waits as before.
    *[Arrow(Move.REQUEUE, state, state) for state in (_S.SCHEDULED, _S.READY, _S.BLOCKED)],
)

_ALLOWED = frozenset((arrow.move, arrow.source, arrow.target) for arrow in TABLE)


def allows(move: Move, source: State | None, target: State) -> bool:
    """Whether the table has this move."""
    return (move, source, target) in _ALLOWED


def chart() -> str:
    """The table as a Mermaid state diagram, one line for each pair of states."""
    labels: dict[tuple[str, str], list[str]] = {}
    for arrow in TABLE:
        pair = (arrow.source or "[*]", arrow.target)
        labels.setdefault((str(pair[0]), str(pair[1])), []).append(str(arrow.move))
    lines = ["stateDiagram-v2"]
    lines += [f"    {src} --> {dst}: {', '.join(moves)}" for (src, dst), moves in labels.items()]
    return "\n".join(lines) + "\n"
