"""Jobs on their way to another store, or from one."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from limpet.domain.queue import sort_key
from limpet.domain.state import FINAL, WAITING
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.bounds import at_most_a_chunk, prefix_within
from limpet.storage.contract.relocation import (
    CARGO_BYTES,
    Cargo,
    CarriedEvent,
    CarriedLine,
    Manifest,
    MoveStage,
    Parcel,
)
from limpet.storage.contract.store import CHUNK
from limpet.storage.records.texts import to_json
from limpet.storage.sqlite import moved_settings
from limpet.storage.sqlite.inspect import totals
from limpet.storage.sqlite.keys import HAS, NONE, WAITS
from limpet.storage.sqlite.relocate import must_be
from limpet.storage.sqlite.transaction import Transaction, Value


def manifest(tx: Transaction) -> Manifest:
    """The inventory of the store; see `MoveVerbs.manifest`."""
    return Manifest(
        counts=tuple(tx.run("cargo", "counts")),
        queues=tuple(name for (name,) in tx.run("cargo", "queues")),
        paused=tuple(name for (name,) in tx.run("session", "paused")),
        totals=totals(tx),
        settings=moved_settings.pieces(tx),
    )


def cargo(tx: Transaction, cursor: str) -> Cargo:
    """The next jobs; see `MoveVerbs.cargo`."""
    sizes = tx.run("cargo", "sizes", after=int(cursor or 0), limit=CHUNK)
    if not sizes:
        return Cargo((), (), (), cursor, more=False)
    taken = prefix_within([size for _, size in sizes], CARGO_BYTES)
    numbers = {"first": sizes[0][0], "last": sizes[taken - 1][0]}
    return Cargo(
        [Parcel._make(row) for row in tx.run("cargo", "jobs", **numbers)],
        [CarriedEvent._make(row) for row in tx.run("cargo", "events", **numbers)],
        [CarriedLine._make(row) for row in tx.run("cargo", "lines", **numbers)],
        str(numbers["last"]),
        more=taken < len(sizes) or len(sizes) == CHUNK,
    )


def adopt(tx: Transaction, move: str, cargo: Cargo) -> int:
    """Write jobs as they were in the other store; see `MoveVerbs.adopt`."""
    at_most_a_chunk(cargo.parcels)
    must_be(tx, MoveStage.ARRIVING, move)
    ids = to_json([parcel.id for parcel in cargo.parcels])
    known = {row[0] for row in tx.run("enqueue", "known", ids=ids)}
    fresh = [parcel for parcel in cargo.parcels if parcel.id not in known]
    numbers = {parcel.id: parcel.number for parcel in fresh}
    tx.many("cargo", "insert_job", map(_row, fresh))
    tx.many(
        "enqueue",
        "insert_payload",
        ((parcel.number, parcel.args, parcel.options, parcel.secrets) for parcel in fresh),
    )
    tx.many(
        "cargo",
        "insert_result",
        (
            (parcel.number, parcel.result, parcel.result_secrets or "[]", parcel.error)
            for parcel in fresh
            if parcel.result is not None or parcel.error is not None
        ),
    )
    tx.many(
        "cargo",
        "insert_blocked",
        (
            _block(parcel)
            for parcel in fresh
            if parcel.blocked and _turn(parcel) != WAITS and not parcel.pending
        ),
    )
    # `promote` checks whether any of these may have a turn by now.
    waiting = {parcel.key for parcel in fresh if _turn(parcel) == WAITS}
    tx.many("cargo", "look_after", ((key, tx.now) for key in sorted(filter(None, waiting))))
    _give_uniques(tx, fresh)
    tx.many(
        "report",
        "progress",
        (
            (
                parcel.number,
                parcel.progress_token,
                parcel.done,
                parcel.total,
                parcel.note,
                parcel.progress_at,
            )
            for parcel in fresh
            if parcel.progress_token is not None
        ),
    )
    tx.many(
        "transaction",
        "event",
        ((numbers[event.job], *event[1:]) for event in cargo.events if event.job in numbers),
    )
    tx.many(
        "report",
        "line",
        ((numbers[line.job], *line[1:]) for line in cargo.lines if line.job in numbers),
    )
    counted = Counter((parcel.queue, parcel.state) for parcel in fresh)
    tx.many("transaction", "gauge", ((*where, count) for where, count in counted.items()))
    tx.run("cargo", "arrived", cursor=cargo.cursor)
    return len(fresh)


def _row(parcel: Parcel) -> tuple[Value, ...]:
    ends = [at for at in (parcel.expires_at, parcel.deadline_at) if at is not None]
    return (
        *parcel[:6],
        sort_key(parcel.ready_at, parcel.priority),
        parcel.ready_at,
        int(parcel.suspect),
        int(parcel.last_run),
        *parcel[9:21],
        min(ends, default=None) if parcel.state in WAITING else None,
        *parcel[21:27],
        parcel.rules,
        parcel.pending,
        parcel.relaunch_at,
        _turn(parcel),
    )


def _turn(parcel: Parcel) -> int:
    if parcel.turn:
        return HAS
    return WAITS if (parcel.blocked or "").startswith("key:") else NONE


def _give_uniques(tx: Transaction, fresh: Sequence[Parcel]) -> None:
    """Let the last job of each `unique` hold it; but an unfinished job keeps it against a finished
    one, because the unfinished one was opened again.
    """
    had: dict[tuple[str, str], tuple[int, str]] = {}
    arrived = [parcel for parcel in fresh if parcel.unique is not None]
    pairs = to_json([(parcel.task, parcel.unique) for parcel in arrived])
    for task, unique, _, _, _, n, _, state, *_ in tx.run("unique", "holders", pairs=pairs):
        had[task, unique] = (n, state)
        tx.run("unique", "let_go", n=n)
    for parcel in arrived:
        pair = (parcel.task, parcel.unique or "")
        if pair not in had or parcel.state not in FINAL or had[pair][1] in FINAL:
            had[pair] = (parcel.number, parcel.state)
    for n, _ in had.values():
        tx.run("unique", "take", n=n)


def _block(parcel: Parcel) -> tuple[Value, ...]:
    reason, _, what = (parcel.blocked or "").partition(":")
    return parcel.number, reason, what, parcel.ready_at


def furnish(tx: Transaction, move: str, manifest: Manifest) -> None:
    """Pause queues, set totals and settings; see `MoveVerbs.furnish`."""
    must_be(tx, MoveStage.ARRIVING, move)
    tx.run("cargo", "forget_totals")
    moved_settings.place(tx, manifest.settings)
    tx.many(
        "transaction",
        "total",
        ((total.queue, total.move, total.count) for total in manifest.totals),
    )
    for queue in manifest.paused:
        tx.run("control", "pause", queue=queue, paused=1)
    tx.many("transaction", "gauge", ((queue, "ready", 0) for queue in manifest.queues))
    tx.bells |= {Topic.READY, Topic.DONE}


def discard(tx: Transaction, move: str) -> bool:
    """Remove jobs and settings that have arrived; see `MoveVerbs.discard`."""
    must_be(tx, MoveStage.EMPTYING, move)
    rows = tx.run("cargo", "some", limit=CHUNK)
    numbers = [(row[0],) for row in rows]
    for table in ("job", "payload", "result", "events", "progress", "log"):
        tx.many("prune", table, numbers)
    tx.many("session", "forget_block", numbers)
    for where, jobs in groupby(sorted(row[1:] for row in rows)):
        tx.many("transaction", "gauge", [(*where, -len(list(jobs)))])
    if len(rows) < CHUNK:
        tx.run("cargo", "forget_totals")
        moved_settings.forget(tx)
        tx.run("cargo", "forget_lines")
    return len(rows) == CHUNK
