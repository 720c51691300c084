"""How many jobs of a queue or a key may be under way, and what breakers hold back."""

from collections.abc import Mapping, Sequence

from limpet.domain.breaker import BreakerRules, BreakerState, BreakerStatus
from limpet.domain.queue import NO_QUEUE_RULES, QueueRules
from limpet.domain.rate import Rate
from limpet.storage.contract.answers import KeyLimit
from limpet.storage.records.store_settings import BreakerPiece, KeyPiece, breaker_in, key_in
from limpet.storage.records.texts import queue_rules_in, to_json
from limpet.storage.records.unreadable import or_else, readable
from limpet.storage.redis.link import RedisLink
from limpet.storage.redis.packed import unpacked


def declare_queues(link: RedisLink, queues: Mapping[str, QueueRules]) -> None:
    """Keep the rules that the app declares; see `LimitVerbs.declare_queues`."""
    words = [word for name in queues for word in (name, rules_text(queues[name]))]
    link.call("declare_queues", words)


def limit_queue(link: RedisLink, queue: str, rules: QueueRules | None) -> None:
    """Set rules of a queue at run time; see `LimitVerbs.limit_queue`."""
    link.call("limit_queue", queue, rules_text(rules or NO_QUEUE_RULES))


def rules_text(rules: QueueRules) -> str:
    """Rules as the scripts keep them; empty for none."""
    return to_json(rules) if rules != NO_QUEUE_RULES else ""


rules_of = queue_rules_in
"""The rules that `rules_text` wrote, for a queue and one of its fields."""


def hold_queue(link: RedisLink, queue: str, until: int) -> None:
    """Let nothing of a queue be claimed before that time."""
    link.call("hold_queue", queue, until)


def drain_queue(link: RedisLink, queue: str, draining: bool) -> None:
    """Let a queue take no new jobs, or take them again."""
    link.call("drain_queue", queue, draining)


def limit_key(link: RedisLink, key: str, limit: int | None, rate: Rate | None) -> None:
    """Set the limit of a key at run time; see `LimitVerbs.limit_key`."""
    link.call("limit_key", key, key_text(KeyPiece(limit, rate)))


def key_limit(link: RedisLink, key: str) -> KeyLimit:
    """The limit that was set for a key; see `LimitVerbs.key_limit`."""
    piece = key_in(key, link.call("key_limit", key)[1] or "{}")
    return KeyLimit(piece.limit, piece.rate)


def key_text(piece: KeyPiece) -> str:
    """The limit of a key as the scripts keep it; empty for none."""
    if piece.limit is None and piece.rate is None:
        return ""
    return KeyPiece(piece.limit, piece.rate).text()


def declare_breakers(link: RedisLink, breakers: Sequence[BreakerRules]) -> None:
    """Keep the breakers that the app declares; see `BreakerVerbs.declare_breakers`."""
    words = []
    for rules in breakers:
        shut = BreakerStatus(rules, BreakerState.CLOSED, 0, 0, 0, None, None)
        words += [rules.name, BreakerPiece.of(shut).text()]
    link.call("declare_breakers", words)


def breakers(link: RedisLink) -> tuple[BreakerStatus, ...]:
    """Every breaker, by name."""
    _, rules, states = link.call("breakers")
    names = sorted(zip(rules[::2], rules[1::2], states, strict=True))
    return tuple(readable(names, lambda parts: breaker_of(*parts)))


def breaker_of(name: bytes, rules: bytes, state: bytes | None) -> BreakerStatus:
    """A breaker from what the scripts keep; see include/breakers.lua."""
    found = breaker_in(name.decode(errors="replace"), rules)
    if state is None:
        return found
    return or_else(
        "breaker", found.rules.name, "state", lambda text: _in_state(found, text), state, found
    )


def _in_state(found: BreakerStatus, state: bytes) -> BreakerStatus:
    where, succeeded, failed, window_at, opened_at, probe_at, tries = unpacked(state)
    return BreakerStatus(
        found.rules,
        BreakerState(where),
        succeeded,
        failed,
        int(window_at),
        None if opened_at is False else int(opened_at),
        None if probe_at is False else int(probe_at),
        tuple((job, int(token)) for job, token in tries),
    )


def reset_breaker(link: RedisLink, name: str) -> bool:
    """Close a breaker; False if there is none."""
    return bool(link.call("reset_breaker", name)[1])
