"""Jobs on their way to another store, or from one."""

from collections import defaultdict
from typing import Any

from limpet.domain.errors import StoreCorrupt
from limpet.domain.rules import rules_of
from limpet.storage.contract.answers import Total
from limpet.storage.contract.bounds import at_most_a_chunk
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
from limpet.storage.records.texts import from_json
from limpet.storage.redis.enqueue import flags_of, has_hook
from limpet.storage.redis.furniture import furniture_of, writes_of
from limpet.storage.redis.layout import FAMILY, HOOK, TURN
from limpet.storage.redis.link import RedisLink, as_text, packed
from limpet.storage.redis.packed import unpacked
from limpet.storage.redis.rows import counts_of, number_of, parcel_of, row_of

_NOT_ARRIVING = 1
_MOST_LATEST = 1_000


def manifest(link: RedisLink) -> Manifest:
    """What there is; see `MoveVerbs.manifest`."""
    _, gauges, totals, paused, rows, *beside = link.call("manifest")
    counted = counts_of(gauges)
    found = Manifest(
        counts=tuple(sorted((queue, state, n) for (queue, state), n in counted.items() if n)),
        queues=tuple(sorted({queue for queue, _ in counted})),
        paused=tuple(sorted(queue.decode() for queue in paused)),
        totals=tuple(Total(*name, count) for name, count in sorted(counts_of(totals).items())),
        furniture=furniture_of(beside),
    )
    if set(rows) != {found.jobs}:
        # Too many to be counted one by one while everybody waits; fsck does.
        raise StoreCorrupt(
            f"{link.location.url} counts {found.jobs} jobs, but has {rows[0]}; run `limpet fsck`."
        )
    return found


def cargo(link: RedisLink, cursor: str) -> Cargo:
    """The next jobs; see `MoveVerbs.cargo`."""
    _, told, events, lines, more = link.call("cargo", int(cursor or 0), CHUNK, CARGO_BYTES)
    parcels = [parcel_of(parts) for parts in told]
    return Cargo(
        parcels,
        [
            _event(parcel.id, unpacked(entry))
            for parcel, entries in zip(parcels, events, strict=True)
            for entry in entries
        ],
        [
            CarriedLine(parcel.id, *unpacked(entry))
            for parcel, entries in zip(parcels, lines, strict=True)
            for entry in entries
        ],
        str(number_of(told[-1])) if told else cursor,
        more=bool(more),
    )


def _event(job: str, entry: list[Any]) -> CarriedEvent:
    """What is not set is false in the store."""
    return CarriedEvent(job, entry[0], entry[1], *(_unless_false(each) for each in entry[2:]))


def _unless_false(value: Any) -> Any:
    return None if value is False else value


def adopt(link: RedisLink, move: str, cargo: Cargo) -> int:
    """Write jobs as they were elsewhere; see `MoveVerbs.adopt`."""
    at_most_a_chunk(cargo.parcels)
    events: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    lines: dict[str, list[Any]] = defaultdict(list)
    for job, *told in cargo.events:
        events[job].append(tuple(False if each is None else each for each in told))
    for job, *said in cargo.lines:
        lines[job].append(as_text(packed(said)))
    latest = [
        as_text(packed((each.id, each.task, each.queue, entry)))
        for each in cargo.parcels
        for entry in events[each.id]
    ]
    parcels = [
        _sent(each, [as_text(packed(entry)) for entry in events[each.id]], lines[each.id])
        for each in cargo.parcels
    ]
    code, *answer = link.call("adopt", move, cargo.cursor, parcels, latest[-_MOST_LATEST:])
    if code == _NOT_ARRIVING:
        raise not_arriving(move)
    return int(answer[0])


def _sent(each: Parcel, events: list[Any], lines: list[Any]) -> tuple[Any, ...]:
    record: dict[str, Any] | None = from_json(each.rules, dict[str, Any]) if each.rules else None
    extra = (each.key, each.unique, each.parent, each.root, each.weight_class, record)
    flags = flags_of(each.key, each.unique, each.parent, rules_of(record or {}))
    if each.pending:
        flags |= FAMILY
    if each.turn:
        flags |= TURN
    if has_hook(each.options):
        flags |= HOOK
    secrets = from_json(each.secrets, list[str])
    payload = (each.payload_version, each.args, each.options, secrets, None)
    progress = (each.said_token, each.done, each.total, each.note, each.said_at)
    hidden = each.result_secrets
    return (
        each.id,
        as_text(row_of(each, flags)),
        as_text(b"".join(map(packed, payload))),
        as_text(packed(extra)) if any(value is not None for value in extra) else False,
        each.result if each.result is not None else False,
        as_text(packed(from_json(hidden, list[str]))) if hidden else False,
        each.error if each.error is not None else False,
        as_text(packed(progress)) if each.said_token is not None else False,
        each.blocked or False,
        events,
        lines,
        each.pending,
        each.relaunch_at if each.relaunch_at is not None else False,
    )


def furnish(link: RedisLink, move: str, manifest: Manifest) -> None:
    """Pause queues, set totals and furniture; see `MoveVerbs.furnish`."""
    totals = [
        word for each in manifest.totals for word in (f"{each.queue}/{each.move}", str(each.count))
    ]
    pieces = writes_of(manifest.furniture)
    (code,) = link.call("furnish", move, manifest.queues, manifest.paused, totals, pieces)
    if code == _NOT_ARRIVING:
        raise not_arriving(move)


def discard(link: RedisLink, move: str) -> bool:
    """Remove what has arrived; see `MoveVerbs.discard`."""
    code, *answer = link.call("discard", move)
    if code == _NOT_ARRIVING:
        raise not_arriving(move)
    return bool(answer[0])
