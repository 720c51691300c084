"""A store that moves to another place: what is taken along, how far it is, what is refused.

A source goes from open to `closing` (nothing new: no enqueue but by jobs that run, no session, no
claim; all else goes on), to `closed` once nothing runs (nothing is written any more, so that what
is copied stays as it was), to `moved`, which is for ever. A target goes from empty to `arriving`
(nothing is written but what arrives) to `arrived`, which is open; or, where the move is given up,
to `emptying` and back to empty. Each step is one atomic write in
one store. The source is `moved` before the target is `arrived`, so that no job can start in both.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from limpet.domain.errors import StoreMoved
from limpet.storage.contract.answers import Total

# A cargo is not larger, unless a single job is.
CARGO_BYTES = 4_000_000


class MoveStage(StrEnum):
    """How far a store is."""

    CLOSING = "closing"
    CLOSED = "closed"
    MOVED = "moved"
    ARRIVING = "arriving"
    ARRIVED = "arrived"
    EMPTYING = "emptying"


class Relocation(msgspec.Struct, frozen=True):
    """A store's part in a move.

    `id`: the move, the same on both sides. `place`: the URL of the other side as it is shown,
    without a password. `epoch`: that of the other side, so that it is not taken for another.
    """

    id: str
    stage: MoveStage
    place: str
    epoch: str

    def text(self) -> str:
        """As a store keeps it."""
        return msgspec.json.encode(self).decode()

    @property
    def closes(self) -> str | None:
        """What a store keeps beside it for every verb to see: the stage, or None when open."""
        return None if self.stage is MoveStage.ARRIVED else str(self.stage)


def relocation_of(text: str | bytes | None) -> Relocation | None:
    """What a store keeps."""
    return msgspec.json.decode(text, type=Relocation) if text else None


def refused(record: str | bytes | None) -> StoreMoved:
    """What a verb is told by a store that is closed."""
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
                f"this store was moved to {found.place} and is kept to be read only; nothing was "
                f"written. Set LIMPET_URL, or the URL of the app, to the new place."
            )
        case _:
            return StoreMoved(
                f"this store is being moved to {found.place}; nothing was written. Set LIMPET_URL, "
                f"or the URL of the app, to the new place, and try again when the move is over."
            )


Need = Literal["", "idle", "empty"]


def need_of(was: Relocation | None, wanted: Relocation | None) -> Need:
    """What must hold in the same step: nothing runs and no committed flow is to be written out
    (`idle`), or there is no job and no living session (`empty`).
    """
    if wanted is not None and wanted.stage is MoveStage.CLOSED:
        return "idle"
    emptied = was is not None and was.stage is MoveStage.EMPTYING
    arrives = wanted is not None and wanted.stage is MoveStage.ARRIVING and not emptied
    return "empty" if arrives or (emptied and wanted is None) else ""


class Relocated(NamedTuple):
    """The answer to a `relocate`: whether it was done, or is so already.

    Otherwise `now` is what was found instead, or `running`, `jobs` and `sessions` are in the way.
    """

    done: bool
    now: Relocation | None
    running: int = 0
    jobs: int = 0
    sessions: int = 0


class Statements(Protocol):
    """A transaction of a store that keeps its move in SQL: it runs the script `relocate`."""

    def run(self, verb: str, statement: str, /, **params: Any) -> list[Any]:
        """Run one statement of a verb's script and return all its rows."""
        ...


def relocation_in(tx: Statements) -> tuple[Relocation | None, str]:
    """The part in a move of a store in SQL; see `MoveVerbs.relocation`."""
    rows = tx.run("relocate", "record")
    return (relocation_of(rows[0][0]), rows[0][1] or "") if rows else (None, "")


def relocate_in(tx: Statements, was: Relocation | None, wanted: Relocation | None) -> Relocated:
    """A step of a move of a store in SQL, beside which nobody writes; see `MoveVerbs.relocate`."""
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
    """A job as it is carried from store to store: all that is kept of it, but for its timeline and
    its lines. Times are wall time in microseconds; `secrets` and `error` are JSON.

    `number`: its place among all that were enqueued. `blocked`: reason:what. `said_token` to
    `said_at`: the progress that an attempt told last. `rules`: JSON, None for none. `turn`: whether
    it has a turn of its key. Who holds a `unique`, and turns, are made anew from the jobs.
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
    said_token: int | None
    done: float | None
    total: float | None
    note: str | None
    said_at: int | None
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
    """Some jobs with all that is told about them; each job's events and lines are in order.

    `cursor` continues after them; `more` says that there may be more.
    """

    parcels: Sequence[Parcel]
    events: Sequence[CarriedEvent]
    lines: Sequence[CarriedLine]
    cursor: str
    more: bool


class Manifest(NamedTuple):
    """What a store has, counted: jobs by queue and state (rows, not gauges), queues that ever had
    jobs, those that are paused, and how often each move was made. `furniture`: everything else
    that is not a job, as kind, name and JSON, sorted (`storage.furniture`: `queue`, `key`,
    `breaker`; only those that say something). Flows that are staged and not committed stay behind.
    """

    counts: tuple[tuple[str, str, int], ...]
    queues: tuple[str, ...]
    paused: tuple[str, ...]
    totals: tuple[Total, ...]
    furniture: tuple[tuple[str, str, str], ...] = ()

    @property
    def jobs(self) -> int:
        return sum(count for _, _, count in self.counts)


class MoveVerbs(Protocol):
    """What it takes to move a store to another place."""

    def relocation(self) -> tuple[Relocation | None, str]:
        """The store's part in a move, and up to where cargo has arrived. Reads only."""
        ...

    def relocate(self, was: Relocation | None, wanted: Relocation | None) -> Relocated:
        """`was` → `wanted`, None being an ordinary store. Atomic, with what `need_of` says. Done
        only if `was` is what is found; a repeat finds `wanted`, and is done too.
        """
        ...

    def manifest(self) -> Manifest:
        """What there is to move, or what has arrived. Reads only."""
        ...

    def cargo(self, cursor: str = "") -> Cargo:
        """The next jobs after the cursor, at most 1,000 and about `CARGO_BYTES`. Reads only. All
        are taken once, if nothing is written meanwhile.
        """
        ...

    def adopt(self, move: str, cargo: Cargo, /) -> int:
        """(nothing) → the state that each had, with all that is kept of it; the cursor is kept
        too. Atomic, at most 1,000. The answer says how many are new: a job that is there stays as
        it is, so a repeat changes nothing. Raises `StoreNotMoved` unless the store is `arriving` in
        that move.
        """
        ...

    def furnish(self, move: str, manifest: Manifest) -> None:
        """Pause the queues, set the totals and the furniture that the manifest tells, and name
        its queues. Atomic; a repeat changes nothing. Raises as `adopt` does.
        """
        ...

    def discard(self, move: str) -> bool:
        """(any state) → (nothing) for what has arrived. Atomic, at most 1,000 jobs; True if there
        is more. A repeat goes on. Raises `StoreNotMoved` unless the store is `emptying` in that
        move.
        """
        ...
