"""Moves jobs and settings to another store, or from one."""

import psycopg

from limpet.storage.contract.answers import Total
from limpet.storage.contract.bounds import at_most_a_chunk, prefix_within
from limpet.storage.contract.refusals import not_arriving
from limpet.storage.contract.relocation import (
    CARGO_BYTES,
    Cargo,
    CarriedEvent,
    CarriedLine,
    Manifest,
    Parcel,
)
from limpet.storage.contract.store import CHUNK
from limpet.storage.postgres.breakers import breakers, write
from limpet.storage.postgres.inspect import totals
from limpet.storage.postgres.limits import write_rules
from limpet.storage.postgres.report import kept
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.records.store_settings import BreakerPiece, KeyPiece, QueuePiece, read
from limpet.storage.records.texts import rate_in, rules_of_row, to_json
from limpet.storage.sql import schedules
from limpet.storage.sql.rows import Row

_NOT_ARRIVING = "LP004"


def manifest(tx: Transaction) -> Manifest:
    """What this store holds; see `MoveVerbs.manifest`."""
    tx.run("connection", "no_timeout")
    return Manifest(
        counts=tuple(tx.run("cargo", "counts")),
        queues=tuple(name for (name,) in tx.run("cargo", "queues")),
        paused=tuple(name for (name,) in tx.run("cargo", "paused")),
        totals=totals(tx),
        settings=_settings(tx),
    )


def _settings(tx: Transaction) -> tuple[tuple[str, str, str], ...]:
    """The settings of the store that are not empty, as kind, name and JSON."""
    pieces: list[tuple[str, str, QueuePiece | KeyPiece | BreakerPiece]] = []
    for name, declared, adjusted, held_until, given_until, draining in tx.run(
        "cargo", "queue_pieces"
    ):
        rules = rules_of_row(name, declared, adjusted)
        pieces.append(("queue", name, QueuePiece(*rules, held_until, given_until, draining)))
    for name, limit, rate, given_until in tx.run("cargo", "key_pieces"):
        at = rate_in(name, rate)
        pieces.append(("key", name, KeyPiece(limit, at, given_until)))
    for breaker in breakers(tx):
        pieces.append(("breaker", breaker.rules.name, BreakerPiece.of(breaker)))
    texts = [(kind, name, piece.text()) for kind, name, piece in pieces]
    texts += schedules.settings(tx)
    return tuple(sorted(setting for setting in texts if setting[2] != "{}"))


def cargo(tx: Transaction, cursor: str) -> Cargo:
    """The next jobs, by id; see `MoveVerbs.cargo`."""
    sizes = tx.run("cargo", "sizes", after=cursor, limit=CHUNK)
    if not sizes:
        return Cargo((), (), (), cursor, more=False)
    taken = prefix_within([size for _, size in sizes], CARGO_BYTES)
    ids = {"after": cursor, "last": sizes[taken - 1][0]}
    return Cargo(
        [Parcel._make(row) for row in tx.run("cargo", "jobs", **ids)],
        [CarriedEvent._make(row) for row in tx.run("cargo", "events", **ids)],
        [CarriedLine._make(row) for row in tx.run("cargo", "lines", **ids)],
        ids["last"],
        more=taken < len(sizes) or len(sizes) == CHUNK,
    )


def adopt(tx: Transaction, move: str, cargo: Cargo) -> int:
    """Write jobs as they were in the other store; see `MoveVerbs.adopt`."""
    at_most_a_chunk(cargo.parcels)
    jobs = to_json([_record(parcel) for parcel in cargo.parcels])
    lines = to_json([(job, at, kept(level), kept(text)) for job, at, level, text in cargo.lines])
    ((fresh,),) = _call(tx, move, "adopt", jobs, to_json(cargo.events), lines, cargo.cursor)
    return int(fresh)


def _record(parcel: Parcel) -> dict[str, object]:
    reason, _, what = parcel.blocked.partition(":") if parcel.blocked else (None, None, None)
    return {
        **parcel._asdict(),
        "suspect": bool(parcel.suspect),
        "last_run": bool(parcel.last_run),
        "note": None if parcel.note is None else kept(parcel.note),
        "tail": int(parcel.id[-8:], 32),
        "reason": reason,
        "what": what,
    }


def furnish(tx: Transaction, move: str, manifest: Manifest) -> None:
    """Pause queues, set totals and settings; see `MoveVerbs.furnish`."""
    record = {
        "queues": manifest.queues,
        "paused": manifest.paused,
        "totals": [_total(total) for total in manifest.totals],
    }
    _call(tx, move, "furnish", to_json(record))
    for kind, name, text in manifest.settings:
        _place(tx, kind, name, text)
    tx.run("schedule", "remove_all")
    tx.run("schedule", "adopt", rows=to_json(schedules.rows(manifest.settings)))


def _place(tx: Transaction, kind: str, name: str, text: str) -> None:
    """Set one of the settings as it was in the other store."""
    match kind:
        case "queue":
            queue = read(QueuePiece, text)
            tx.run("limits", "begin", queue=name)
            write_rules(tx, name, queue.declared, queue.adjusted)
            tx.run(
                "cargo",
                "furnish_queue",
                queue=name,
                held_until=queue.held_until,
                given_until=queue.given_until,
                draining=queue.draining,
            )
        case "key":
            key = read(KeyPiece, text)
            tx.run(
                "cargo",
                "furnish_key",
                key=name,
                limit=key.limit,
                rate=None if key.rate is None else to_json(key.rate),
                given_until=key.given_until,
            )
        case "breaker":
            write(tx, read(BreakerPiece, text).breaker(name))


def _total(total: Total) -> tuple[str, str, int]:
    return total.queue, total.move, total.count


def discard(tx: Transaction, move: str) -> bool:
    """Remove jobs and settings that have arrived here; see `MoveVerbs.discard`."""
    ((gone,),) = _call(tx, move, "discard")
    return bool(gone == CHUNK)


def _call(tx: Transaction, move: str, function: str, *params: object) -> list[Row]:
    try:
        return tx.call(function, move, *params)
    except psycopg.Error as error:
        if error.sqlstate == _NOT_ARRIVING:
            raise not_arriving(move) from error
        raise
