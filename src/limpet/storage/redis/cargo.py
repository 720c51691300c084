"""Carries jobs to another store, or from one."""

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
from limpet.storage.redis.layout import FAMILY, HOOK, TURN
from limpet.storage.redis.link import RedisLink, as_text, packed
from limpet.storage.redis.moved_settings import settings_of, writes_of
from limpet.storage.redis.packed import unpacked
from limpet.storage.redis.rows import counts_of, number_of, parcel_of, row_of

_NOT_ARRIVING = 1
_MOST_LATEST = 1_000


def manifest(link: RedisLink) -> Manifest:
    """What the store holds; see `MoveVerbs.manifest`."""
    _, gauges, totals, paused, rows, *beside = link.call("manifest")
    counted = counts_of(gauges)
    found = Manifest(
        counts=tuple(sorted((queue, state, n) for (queue, state), n in counted.items() if n)),
        queues=tuple(sorted({queue for queue, _ in counted})),
        paused=tuple(sorted(queue.decode() for queue in paused)),
        totals=tuple(Total(*name, count) for name, count in sorted(counts_of(totals).items())),
        settings=settings_of(beside),
    )
    if set(rows) != {found.jobs}:
        # There may be too many jobs to count them here while others wait for the server; fsck does.
        raise StoreCorrupt(
            f"{link.location.url} counts {found.jobs} jobs, but has {rows[0]}; run `limpet fsck`."
        )
    return found


def cargo(link: RedisLink, cursor: str) -> Cargo:
    """The next jobs; see `MoveVerbs.cargo`."""
    _, jobs, events, lines, more = link.call("cargo", int(cursor or 0), CHUNK, CARGO_BYTES)
    parcels = [parcel_of(parts) for parts in jobs]
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
        str(number_of(jobs[-1])) if jobs else cursor,
        more=bool(more),
    )


def _event(job: str, entry: list[Any]) -> CarriedEvent:
    """An event as another store takes it; a field that is not set is false in this one."""
    return CarriedEvent(job, entry[0], entry[1], *(_unless_false(value) for value in entry[2:]))


def _unless_false(value: Any) -> Any:
    return None if value is False else value


def adopt(link: RedisLink, move: str, cargo: Cargo) -> int:
    """Write jobs as they were in another store; see `MoveVerbs.adopt`."""
    at_most_a_chunk(cargo.parcels)
    events: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    lines: dict[str, list[Any]] = defaultdict(list)
    for job, *event in cargo.events:
        events[job].append(tuple(False if value is None else value for value in event))
    for job, *line in cargo.lines:
        lines[job].append(as_text(packed(line)))
    latest = [
        as_text(packed((parcel.id, parcel.task, parcel.queue, entry)))
        for parcel in cargo.parcels
        for entry in events[parcel.id]
    ]
    parcels = [
        _encode(parcel, [as_text(packed(entry)) for entry in events[parcel.id]], lines[parcel.id])
        for parcel in cargo.parcels
    ]
    code, *answer = link.call("adopt", move, cargo.cursor, parcels, latest[-_MOST_LATEST:])
    if code == _NOT_ARRIVING:
        raise not_arriving(move)
    return int(answer[0])


def _encode(parcel: Parcel, events: list[Any], lines: list[Any]) -> tuple[Any, ...]:
    record: dict[str, Any] | None = (
        from_json(parcel.rules, dict[str, Any]) if parcel.rules else None
    )
    extra = (parcel.key, parcel.unique, parcel.parent, parcel.root, parcel.weight_class, record)
    flags = flags_of(parcel.key, parcel.unique, parcel.parent, rules_of(record or {}))
    if parcel.pending:
        flags |= FAMILY
    if parcel.turn:
        flags |= TURN
    if has_hook(parcel.options):
        flags |= HOOK
    secrets = from_json(parcel.secrets, list[str])
    payload = (parcel.payload_version, parcel.args, parcel.options, secrets, None)
    progress = (parcel.progress_token, parcel.done, parcel.total, parcel.note, parcel.progress_at)
    hidden = parcel.result_secrets
    return (
        parcel.id,
        as_text(row_of(parcel, flags)),
        as_text(b"".join(map(packed, payload))),
        as_text(packed(extra)) if any(value is not None for value in extra) else False,
        parcel.result if parcel.result is not None else False,
        as_text(packed(from_json(hidden, list[str]))) if hidden else False,
        parcel.error if parcel.error is not None else False,
        as_text(packed(progress)) if parcel.progress_token is not None else False,
        parcel.blocked or False,
        events,
        lines,
        parcel.pending,
        parcel.relaunch_at if parcel.relaunch_at is not None else False,
    )


def furnish(link: RedisLink, move: str, manifest: Manifest) -> None:
    """Pause queues, set totals and settings; see `MoveVerbs.furnish`."""
    totals = [
        word
        for total in manifest.totals
        for word in (f"{total.queue}/{total.move}", str(total.count))
    ]
    pieces = writes_of(manifest.settings)
    (code,) = link.call("furnish", move, manifest.queues, manifest.paused, totals, pieces)
    if code == _NOT_ARRIVING:
        raise not_arriving(move)


def discard(link: RedisLink, move: str) -> bool:
    """Remove what has arrived; see `MoveVerbs.discard`."""
    code, *answer = link.call("discard", move)
    if code == _NOT_ARRIVING:
        raise not_arriving(move)
    return bool(answer[0])
