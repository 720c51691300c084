"""A store that moves to another place: what is taken along, the stages, and what is refused.

A source goes from open to `closing` (nothing new begins: no enqueue except by running jobs, no
session, no claim; everything else goes on), to `closed` once nothing runs (nothing is written any
more, so that the copy stays right), to `moved`, which is for ever. A target goes from empty to
`arriving` (only the cargo is written) to `arrived`, which is open; or, if the move is given up, to
`emptying` and back to empty. Each step is one atomic write in one store. The source is `moved`
before the target is `arrived`, so that no job can start in both.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from limpet.domain.errors import StoreMoved
from limpet.storage.contract.answers import Total

# The largest cargo, unless a single job is larger.
CARGO_BYTES = 4_000_000


class MoveStage(StrEnum):
    """The stage of a store in a move."""

    CLOSING = "closing"
    CLOSED = "closed"
    MOVED = "moved"
    ARRIVING = "arriving"
    ARRIVED = "arrived"
    EMPTYING = "emptying"


class Relocation(msgspec.Struct, frozen=True):
    """A store's part in a move.

    `id`: the move, the same on both sides. `place`: the URL of the other side as it is shown,
    without a password. `epoch`: the epoch of the other side, by which it is recognised.
    """

    id: str
    stage: MoveStage
    place: str
    epoch: str

    def text(self) -> str:
        """The text that a store keeps."""
        return msgspec.json.encode(self).decode()

    @property
    def closes(self) -> str | None:
        """The stage as a store keeps it apart, where every verb sees it; None when open."""
        return None if self.stage is MoveStage.ARRIVED else str(self.stage)


def relocation_of(text: str | bytes | None) -> Relocation | None:
    """The relocation from the text that a store keeps."""
    return msgspec.json.decode(text, type=Relocation) if text else None


def refused(record: str | bytes | None) -> StoreMoved:
    """The error of a verb on a store that is closed."""
    found = relocation_of(record)
    assert found is not None
    match found.stage:
        case MoveStage.ARRIVING:
            return StoreMoved(
                f"this store is being filled by `limpet move` from {found.place}; nothing was "
                f"written. Wait until it has finished, or run it again if it was stopped."
            )
        case MoveStage.EMPTYING:
            return StoreMoved(
                f"this store is being emptied, because a move from {found.place} was given up; "
                f"nothing was written. Wait until `limpet move --abort` has finished, or run it "
                f"again if it was stopped."
            )
        case MoveStage.MOVED:
            return StoreMoved(
                f"this store was moved to {found.place} and can only be read; nothing was "
                f"written. Set LIMPET_URL, or the URL of the app, to the new place."
            )
        case _:
            return StoreMoved(
                f"this store is being moved to {found.place}; nothing was written. Set LIMPET_URL, "
                f"or the URL of the app, to the new place, and try again when the move is over."
            )


Need = Literal["", "idle", "empty"]


def need_of(was: Relocation | None, wanted: Relocation | None) -> Need:
    """The condition of the step: no job runs and no committed flow is still to be written out
    (`idle`), or there is no job and no living session (`empty`).
    """
    if wanted is not None and wanted.stage is MoveStage.CLOSED:
        return "idle"
    emptied = was is not None and was.stage is MoveStage.EMPTYING
    arrives = wanted is not None and wanted.stage is MoveStage.ARRIVING and not emptied
    return "empty" if arrives or (emptied and wanted is None) else ""


class Relocated(NamedTuple):
    """The answer to a `relocate`; `done`: it was done now, or before.

    Otherwise `now` is the stage that was found instead, or `running`, `jobs` and `sessions` are in
    the way.
    """

    done: bool
    now: Relocation | None
    running: int = 0
    jobs: int = 0
    sessions: int = 0


class Statements(Protocol):
    """A transaction of a store in SQL, which runs the statements of its scripts."""

    def run(self, verb: str, statement: str, /, **params: Any) -> list[Any]:
        """Run one statement of a verb's script and return all its rows."""
        ...


def relocation_in(tx: Statements) -> tuple[Relocation | None, str]:
    """The part of a store in SQL in a move; see `MoveVerbs.relocation`."""
    rows = tx.run("relocate", "record")
    return (relocation_of(rows[0][0]), rows[0][1] or "") if rows else (None, "")


def relocate_in(tx: Statements, was: Relocation | None, wanted: Relocation | None) -> Relocated:
    """A step in the move of a store in SQL, with no writer beside; see `MoveVerbs.relocate`."""
    now, _ = relocation_in(tx)
    if now == wanted:
        return Relocated(True, now)
    if now != was:
        return Relocated(False, now)
    need = need_of(was, wanted)
    if need:
        ((running, jobs, sessions),) = tx.run("relocate", "in_the_way")
        if running if need == "idle" else jobs + sessions:
            return Relocated(False, now, running, jobs, sessions)
    closed, record = (wanted.closes, wanted.text()) if wanted else (None, None)
    tx.run("relocate", "write", closed=closed, record=record)
    return Relocated(True, wanted)


class Parcel(NamedTuple):
    """A job as it is carried from store to store: everything but its timeline and its lines. Times
    are wall time in microseconds; `secrets` and `error` are JSON.

    `number`: its place among all jobs that were enqueued. `blocked`: reason:what. `progress_token`
    to `progress_at`: the last progress that an attempt reported. `rules`: JSON, None for none.
    `turn`: whether it has a turn of its key. The target derives the holders of `unique` and the
    counts of turns from the jobs.
    """

    number: int
    id: str
    task: str
    queue: str
    state: str
    priority: int
    ready_at: int
    suspect: bool
    last_run: bool
    round: int
    token: int
    session: str | None
    failures: int
    orphans: int
    strikes: int
    created_at: int
    claimed_at: int | None
    finished_at: int | None
    cancel_requested_at: int | None
    expires_at: int | None
    deadline_at: int | None
    key: str | None
    unique: str | None
    parent: str | None
    root: str | None
    weight_class: str | None
    payload_version: int
    args: str
    options: str
    secrets: str
    result: str | None
    result_secrets: str | None
    error: str | None
    blocked: str | None
    progress_token: int | None
    done: float | None
    total: float | None
    note: str | None
    progress_at: int | None
    rules: str | None = None
    pending: int = 0
    relaunch_at: int | None = None
    turn: bool = False

    def __repr__(self) -> str:
        return f"<Parcel {self.id} {self.task}>"  # the arguments may hold secrets


class CarriedEvent(NamedTuple):
    """An entry of a job's timeline; `cause` is JSON, `settled` the move that was accepted."""

    job: str
    at: int
    event: str
    session: str | None
    token: int | None
    cause: str | None
    claimed_at: int | None
    settled: str | None


class CarriedLine(NamedTuple):
    """A line that a job wrote."""

    job: str
    at: int
    level: str
    message: str


class Cargo(NamedTuple):
    """Some jobs with their timelines and lines; each job's events and lines are in order.

    `cursor` continues after them; `more`: there may be more.
    """

    parcels: Sequence[Parcel]
    events: Sequence[CarriedEvent]
    lines: Sequence[CarriedLine]
    cursor: str
    more: bool


class Manifest(NamedTuple):
    """An inventory of a store.

    `counts`: jobs by queue and state (rows, not gauges). `queues`: those that ever had jobs.
    `paused`: those that are paused. `totals`: how often each move was made. `settings`: everything
    else that is not a job, as kind, name and JSON, sorted (`records.store_settings`: `queue`,
    `key`, `breaker`, `schedule`; only those that differ from the defaults). Flows that are staged
    and not committed stay behind.
    """

    counts: tuple[tuple[str, str, int], ...]
    queues: tuple[str, ...]
    paused: tuple[str, ...]
    totals: tuple[Total, ...]
    settings: tuple[tuple[str, str, str], ...] = ()

    @property
    def jobs(self) -> int:
        return sum(count for _, _, count in self.counts)


class MoveVerbs(Protocol):
    """The verbs that move a store to another place."""

    def relocation(self) -> tuple[Relocation | None, str]:
        """The store's part in a move, and the cursor of the last cargo that arrived. Reads only."""
        ...

    def relocate(self, was: Relocation | None, wanted: Relocation | None) -> Relocated:
        """`was` → `wanted`; None stands for an ordinary store. Atomic, with the check of `need_of`.
        Done only if the store is at `was`; a repeat finds `wanted`, and counts as done.
        """
        ...

    def manifest(self) -> Manifest:
        """The inventory of what is to be moved, or has arrived. Reads only."""
        ...

    def cargo(self, cursor: str = "") -> Cargo:
        """The next jobs after the cursor, at most 1,000 and about `CARGO_BYTES`. Reads only. If
        nothing is written meanwhile, the calls give each job exactly once.
        """
        ...

    def adopt(self, move: str, cargo: Cargo, /) -> int:
        """(nothing) → the state that each job had, with everything about it; the store keeps the
        cursor, too. Atomic, at most 1,000. The answer is how many are new: a job that is there
        stays as it is, so a repeat changes nothing. Raises `StoreNotMoved` unless the store is
        `arriving` in that move.
        """
        ...

    def furnish(self, move: str, manifest: Manifest) -> None:
        """Pause the queues of the manifest, set its totals and settings, and name its queues.
        Atomic; a repeat changes nothing. Raises as `adopt` does.
        """
        ...

    def discard(self, move: str) -> bool:
        """(any state) → (nothing) for jobs and settings that have arrived. Atomic, at most 1,000
        jobs; True if there is more. A repeat goes on. Raises `StoreNotMoved` unless the store is
        `emptying` in that move.
        """
        ...
