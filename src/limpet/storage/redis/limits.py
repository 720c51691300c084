"""How much of a queue or a key may be under way, and what breakers hold back."""

from collections.abc import Mapping, Sequence
from typing import Any

from limpet.domain.breaker import Breaker, BreakerRules, BreakerState
from limpet.domain.queue import NO_QUEUE_RULES, QueueRules
from limpet.domain.rate import Rate
from limpet.storage.answers import KeyLimit
from limpet.storage.furniture import BreakerPiece, KeyPiece, read
from limpet.storage.redis.link import Link
from limpet.storage.redis.rows import unpacked
from limpet.storage.texts import from_json, to_json


def declare_queues(link: Link, queues: Mapping[str, QueueRules]) -> None:
    """What the app says of its queues; see `LimitVerbs.declare_queues`."""
    link.call("declare_queues", [word for name in queues for word in (name, said(queues[name]))])


def limit_queue(link: Link, queue: str, rules: QueueRules | None) -> None:
    """Rules of a queue at run time; see `LimitVerbs.limit_queue`."""
    link.call("limit_queue", queue, said(rules or NO_QUEUE_RULES))


def said(rules: QueueRules) -> str:
    """Rules as the scripts keep them; nothing for none."""
    return to_json(rules) if rules != NO_QUEUE_RULES else ""


def rules_of(text: bytes | None) -> QueueRules:
    """What `said` wrote."""
    if not text:
        return NO_QUEUE_RULES
    concurrency, rate, weight = from_json(text.decode(), list[Any])
    return QueueRules(concurrency, None if rate is None else Rate(*rate), weight)


def hold_queue(link: Link, queue: str, until: int) -> None:
    """Nothing of it is claimed before that time."""
    link.call("hold_queue", queue, until)


def drain_queue(link: Link, queue: str, draining: bool) -> None:
    """Whether it takes in new jobs."""
    link.call("drain_queue", queue, draining)


def limit_key(link: Link, key: str, limit: int | None, rate: Rate | None) -> None:
    """What is set for a key at run time; see `LimitVerbs.limit_key`."""
    link.call("limit_key", key, key_text(KeyPiece(limit, rate)))


def key_limit(link: Link, key: str) -> KeyLimit:
    """What was set for a key; see `LimitVerbs.key_limit`."""
    piece = read(KeyPiece, link.call("key_limit", key)[1])
    return KeyLimit(piece.limit, piece.rate)


def key_text(piece: KeyPiece) -> str:
    """What is set for a key as the scripts keep it; nothing for none."""
    if piece.limit is None and piece.rate is None:
        return ""
    return KeyPiece(piece.limit, piece.rate).text()


def declare_breakers(link: Link, breakers: Sequence[BreakerRules]) -> None:
    """What the app says of its breakers; see `BreakerVerbs.declare_breakers`."""
    words = []
    for rules in breakers:
        shut = Breaker(rules, BreakerState.CLOSED, 0, 0, 0, None, None)
        words += [rules.name, BreakerPiece.of(shut).text()]
    link.call("declare_breakers", words)


def breakers(link: Link) -> tuple[Breaker, ...]:
    """Every breaker, by name."""
    _, rules, states = link.call("breakers")
    names = sorted(zip(rules[::2], rules[1::2], states, strict=True))
    return tuple(breaker_of(*each) for each in names)


def breaker_of(name: bytes, rules: bytes, state: bytes | None) -> Breaker:
    """A breaker from what the scripts keep; see include/breakers.lua."""
    found = read(BreakerPiece, rules).breaker(name.decode())
    if state is None:
        return found
    where, succeeded, failed, window_at, opened_at, probe_at, tries = unpacked(state)
    return Breaker(
        found.rules,
        BreakerState(where),
        succeeded,
        failed,
        int(window_at),
        None if opened_at is False else int(opened_at),
        None if probe_at is False else int(probe_at),
        tuple((job, int(token)) for job, token in tries),
    )


def reset_breaker(link: Link, name: str) -> bool:
    """Close it on a person's word; False if there is none."""
    return bool(link.call("reset_breaker", name)[1])
