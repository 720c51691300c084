"""Jobs on their way to another store, or from one."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from limpet.domain.queue import sort_key
from limpet.domain.state import FINAL, WAITING
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
from limpet.storage.contract.store import CHUNK, Topic
from limpet.storage.records.texts import to_json
from limpet.storage.sqlite import furniture
from limpet.storage.sqlite.inspect import totals
from limpet.storage.sqlite.keys import HAS, NONE, WAITS
from limpet.storage.sqlite.relocate import must_be
from limpet.storage.sqlite.transaction import Transaction, Value


def manifest(tx: Transaction) -> Manifest:
    """What there is; see `MoveVerbs.manifest`."""
    return Manifest(
        counts=tuple(tx.run("cargo", "counts")),
        queues=tuple(name for (name,) in tx.run("cargo", "queues")),
        paused=tuple(name for (name,) in tx.run("session", "paused")),
        totals=totals(tx),
        furniture=furniture.pieces(tx),
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
    """Write jobs as they were elsewhere; see `MoveVerbs.adopt`."""
    at_most_a_chunk(cargo.parcels)
    must_be(tx, MoveStage.ARRIVING, move)
    ids = to_json([each.id for each in cargo.parcels])
    known = {row[0] for row in tx.run("enqueue", "known", ids=ids)}
    fresh = [each for each in cargo.parcels if each.id not in known]
    numbers = {each.id: each.number for each in fresh}
    tx.many("cargo", "insert_job", map(_row, fresh))
    tx.many(
        "enqueue",
        "insert_payload",
        ((each.number, each.args, each.options, each.secrets) for each in fresh),
    )
    tx.many(
        "cargo",
        "insert_result",
        (
            (each.number, each.result, each.result_secrets or "[]", each.error)
            for each in fresh
            if each.result is not None or each.error is not None
        ),
    )
    tx.many(
        "cargo",
        "insert_blocked",
        (
            _block(each)
            for each in fresh
            if each.blocked and _turn(each) != WAITS and not each.pending
        ),
    )
    # Whether any of these may have a turn by now is for `promote` to see.
    waiting = {each.key for each in fresh if _turn(each) == WAITS}
    tx.many("cargo", "look_after", ((key, tx.now) for key in sorted(filter(None, waiting))))
    _give_uniques(tx, fresh)
    tx.many(
        "report",
        "progress",
        (
            (each.number, each.said_token, each.done, each.total, each.note, each.said_at)
            for each in fresh
            if each.said_token is not None
        ),
    )
    tx.many(
        "transaction",
        "event",
        ((numbers[each.job], *each[1:]) for each in cargo.events if each.job in numbers),
    )
    tx.many(
        "report",
        "line",
        ((numbers[each.job], *each[1:]) for each in cargo.lines if each.job in numbers),
    )
    counted = Counter((each.queue, each.state) for each in fresh)
    tx.many("transaction", "gauge", ((*where, count) for where, count in counted.items()))
    tx.run("cargo", "arrived", cursor=cargo.cursor)
    return len(fresh)


def _row(each: Parcel) -> tuple[Value, ...]:
    ends = [at for at in (each.expires_at, each.deadline_at) if at is not None]
    return (
        *each[:6],
        sort_key(each.ready_at, each.priority),
        each.ready_at,
        int(each.suspect),
        int(each.last_run),
        *each[9:21],
        min(ends, default=None) if each.state in WAITING else None,
        *each[21:27],
        each.rules,
        each.pending,
        each.relaunch_at,
        _turn(each),
    )


def _turn(each: Parcel) -> int:
    if each.turn:
        return HAS
    return WAITS if (each.blocked or "").startswith("key:") else NONE


def _tells_itself(each: Parcel) -> bool:
    """Whether its row tells for what it is blocked."""
    return _turn(each) == WAITS or each.pending > 0


def _give_uniques(tx: Transaction, fresh: Sequence[Parcel]) -> None:
    """Let the last one of each `unique` hold it, but no finished one over one that is not: that was
    opened again.
    """
    had: dict[tuple[str, str], tuple[int, str]] = {}
    arrived = [each for each in fresh if each.unique is not None]
    pairs = to_json([(each.task, each.unique) for each in arrived])
    for task, unique, _, _, _, n, _, state, *_ in tx.run("unique", "holders", pairs=pairs):
        had[task, unique] = (n, state)
        tx.run("unique", "let_go", n=n)
    for each in arrived:
        pair = (each.task, each.unique or "")
        if pair not in had or each.state not in FINAL or had[pair][1] in FINAL:
            had[pair] = (each.number, each.state)
    for n, _ in had.values():
        tx.run("unique", "take", n=n)


def _block(each: Parcel) -> tuple[Value, ...]:
    reason, _, what = (each.blocked or "").partition(":")
    return each.number, reason, what, each.ready_at


def furnish(tx: Transaction, move: str, manifest: Manifest) -> None:
    """Pause queues, set totals and furniture; see `MoveVerbs.furnish`."""
    must_be(tx, MoveStage.ARRIVING, move)
    tx.run("cargo", "forget_totals")
    furniture.place(tx, manifest.furniture)
    tx.many(
        "transaction", "total", ((each.queue, each.move, each.count) for each in manifest.totals)
    )
    for queue in manifest.paused:
        tx.run("control", "pause", queue=queue, paused=1)
    tx.many("transaction", "gauge", ((queue, "ready", 0) for queue in manifest.queues))
    tx.bells |= {Topic.READY, Topic.DONE}


def discard(tx: Transaction, move: str) -> bool:
    """Remove what has arrived; see `MoveVerbs.discard`."""
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
        furniture.forget(tx)
        tx.run("cargo", "forget_lines")
    return len(rows) == CHUNK
