"""The settings of a store as a move carries them: read from the scripts, written by them."""

from collections.abc import Iterable, Sequence
from typing import Any

from limpet.domain.queue import NO_QUEUE_RULES
from limpet.storage.records.store_settings import (
    BreakerPiece,
    KeyPiece,
    QueuePiece,
    SchedulePiece,
    key_in,
    read,
)
from limpet.storage.records.unreadable import readable
from limpet.storage.redis.limits import breaker_of, key_text, rules_of, rules_text
from limpet.storage.redis.link import as_text, packed
from limpet.storage.redis.rows import pairs_of
from limpet.storage.redis.schedule import kept_of, schedules_of

Settings = tuple[tuple[str, str, str], ...]


def settings_of(kept: Sequence[Any]) -> Settings:
    """All pieces, sorted; `kept` is what the script `manifest` lists after the jobs."""
    declared, adjusted, holds, given, draining, keys, breakers, states, schedules = kept
    paced = _times(given)
    pieces = [
        ("queue", name, piece.text())
        for name, piece in _queues(declared, adjusted, holds, paced, draining)
    ]
    limits = {name: key_in(name, text) for name, text in pairs_of(keys)}
    of_keys = {name.removeprefix("key:") for name in paced if name.startswith("key:")}
    for name in limits.keys() | of_keys:
        limit = limits.get(name, KeyPiece())
        piece = KeyPiece(limit.limit, limit.rate, paced.get(f"key:{name}", 0))
        pieces.append(("key", name, piece.text()))
    state_of = dict(pairs_of(states))
    kept_ = [(name.encode(), rules, state_of.get(name)) for name, rules in pairs_of(breakers)]
    for breaker in readable(kept_, lambda parts: breaker_of(*parts)):
        pieces.append(("breaker", breaker.rules.name, BreakerPiece.of(breaker).text()))
    for schedule in schedules_of(schedules):
        pieces.append(("schedule", schedule.id, SchedulePiece.of(schedule).text()))
    return tuple(sorted(pieces))


def _queues(
    declared: Sequence[bytes],
    adjusted: Sequence[bytes],
    holds: Sequence[bytes],
    paced: dict[str, int],
    draining: Iterable[bytes],
) -> Iterable[tuple[str, QueuePiece]]:
    declared_, set_, held = dict(pairs_of(declared)), dict(pairs_of(adjusted)), _times(holds)
    drained = {name.decode() for name in draining}
    of_queues = {name.removeprefix("queue:") for name in paced if name.startswith("queue:")}
    for name in declared_.keys() | set_.keys() | held.keys() | drained | of_queues:
        yield (
            name,
            QueuePiece(
                rules_of(name, declared_.get(name), "declared rules"),
                rules_of(name, set_.get(name), "adjusted rules"),
                held.get(name, 0),
                paced.get(f"queue:{name}", 0),
                name in drained,
            ),
        )


def _times(scored: Sequence[bytes]) -> dict[str, int]:
    return {name: int(float(at)) for name, at in pairs_of(scored)}


def writes_of(settings: Settings) -> list[tuple[str, str, list[Any]]]:
    """The commands, keys and words that write the pieces anew."""
    words: dict[tuple[str, str], list[Any]] = {}

    def put(command: str, key: str, *some: Any) -> None:
        words.setdefault((command, key), []).extend(some)

    for kind, name, text in settings:
        if kind == "queue":
            queue = read(QueuePiece, text)
            for key, rules in (("declared", queue.declared), ("adjusted", queue.adjusted)):
                if rules != NO_QUEUE_RULES:
                    put("HSET", key, name, rules_text(rules))
            if queue.held_until:
                put("ZADD", "holds", str(queue.held_until), name)
            if queue.given_until:
                put("ZADD", "given", str(queue.given_until), f"queue:{name}")
            if queue.draining:
                put("SADD", "draining", name)
        elif kind == "key":
            piece = read(KeyPiece, text)
            if limits := key_text(piece):
                put("HSET", "key_rules", name, limits)
            if piece.given_until:
                put("ZADD", "given", str(piece.given_until), f"key:{name}")
        elif kind == "breaker":
            breaker = read(BreakerPiece, text)
            put("HSET", "breaker_rules", name, breaker_rules_text(breaker))
            put("HSET", "breaker_state", name, as_text(packed(_state(breaker))))
            if breaker.state != "closed":
                put("SADD", "tripped", name)
    written = [(command, key, some) for (command, key), some in words.items()]
    return written + _writes_of_schedules(settings)


def _writes_of_schedules(settings: Settings) -> list[tuple[str, str, list[Any]]]:
    kept: list[Any] = []
    ticks: list[Any] = []
    for kind, name, text in settings:
        if kind == "schedule":
            schedule = read(SchedulePiece, text)
            kept += (name, as_text(packed(kept_of(schedule, name))))
            ticks += () if schedule.paused else (str(schedule.next_at), name)
    return [("HSET", "schedules", kept), ("ZADD", "ticks", ticks)]


def breaker_rules_text(piece: BreakerPiece) -> str:
    """The rules of a breaker alone."""
    return BreakerPiece(
        piece.tasks, piece.failure_rate, piece.least, piece.window_us, piece.probe_after
    ).text()


def _state(piece: BreakerPiece) -> tuple[Any, ...]:
    opened_at = False if piece.opened_at is None else piece.opened_at
    probe_at = False if piece.probe_at is None else piece.probe_at
    counted = (piece.state, piece.succeeded, piece.failed, piece.window_at)
    return *counted, opened_at, probe_at, piece.tries
