"""Values as the text that every store keeps, and the nouns that are read from it."""

import json
from functools import lru_cache
from typing import Annotated, Any, TypeVar

import msgspec

from limpet.domain.cause import Cause, Needs, Unknown, cause_of
from limpet.domain.event import EventName
from limpet.domain.job import EVERYTHING
from limpet.domain.queue import NO_QUEUE_RULES, QueueRules
from limpet.domain.rate import Rate, checked_rate, whole_number
from limpet.domain.rules import NO_RULES, Rules, rules_of
from limpet.storage.records.unreadable import NONSENSE, or_else, why

T = TypeVar("T")


def to_json(value: object) -> str:
    """JSON text, as the store keeps it."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # An exception's message may carry half a character, as in a file name; it is still told.
        return clean(json.dumps(value, ensure_ascii=False))


def strict_json(value: object) -> str:
    """The same of texts as they are; raises `UnicodeEncodeError` for what is none."""
    return msgspec.json.encode(value).decode()


def from_json(text: str, kind: type[T]) -> T:
    """What a store keeps as JSON text."""
    return msgspec.json.decode(text, type=kind)


def clean(text: str) -> str:
    """A text that can be stored: what is not a character becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


UNREADABLE_CAUSE: Cause = Unknown("unreadable", "what the store keeps of the cause cannot be read")


def cause_in(
    kind: str,
    row: str,
    record: str | bytes | None,
    name: str = "cause",
    faults: list[str] | None = None,
) -> Cause | None:
    """A cause as a store keeps it, in that field of that row; what cannot be read is one too."""
    if not record:
        return None
    return or_else(kind, row, name, _cause, record, UNREADABLE_CAUSE, faults)


def _cause(record: str | bytes) -> Cause:
    return cause_of(msgspec.json.decode(record))


def paths_in(
    kind: str,
    row: str,
    record: str | None,
    name: str = "secrets",
    faults: list[str] | None = None,
) -> tuple[str, ...]:
    """The paths of what is masked; where they cannot be read, everything is."""
    if not record or record == "[]":
        return ()
    return or_else(kind, row, name, _paths, record, (EVERYTHING,), faults)


_paths = msgspec.json.Decoder(tuple[str, ...]).decode


def rules_in(row: str | int, record: str | None, faults: list[str] | None = None) -> Rules:
    """What a job, by id or number, asks of the store, from what `rules_text` wrote; nothing where
    that cannot be read.
    """
    if record is None:
        return NO_RULES
    return or_else("job", row, "rules", rules_read, record, NO_RULES, faults)


def has_hook(job: str, options: str) -> bool:
    """Whether a job's options ask for a last run after the last loss."""
    return "orphan_hook" in options and or_else("job", job, "options", _hook, options, False)


def _hook(options: str) -> bool:
    return bool(msgspec.json.decode(options, type=dict[str, Any]).get("orphan_hook"))


def repaired(options: str) -> str:
    """The options of a job that is repaired: as they are, or none where they cannot be read."""
    return "{}" if isinstance(options_in(options), str) else options


class TravellingOptions(msgspec.Struct, frozen=True):
    """What this version reads of a job's options; times are seconds. What it does not know in them
    is kept.
    """

    timeout: Annotated[float, msgspec.Meta(ge=0)] | None = None
    stall_after: Annotated[float, msgspec.Meta(ge=0)] | None = None
    retry: dict[str, Any] | None = None
    relaunch: dict[str, Any] | None = None


_options_decoder = msgspec.json.Decoder(TravellingOptions)


@lru_cache(maxsize=1_000)  # the jobs of a task share theirs
def options_in(options: str) -> TravellingOptions | str:
    """A job's options as whoever runs it keeps to them; or what is wrong with them, in words."""
    try:
        return _options_decoder.decode(options)
    except NONSENSE as error:
        return f"its options cannot be read ({why(error)})"


def queue_rules_in(queue: str, text: str | bytes | None, name: str) -> QueueRules:
    """Rules of a queue from that field of its row; none where they cannot be read."""
    if not text:
        return NO_QUEUE_RULES
    found = or_else("queue", queue, name, _queue_rules, text, NO_QUEUE_RULES)
    return NO_QUEUE_RULES if found == NO_QUEUE_RULES else found


def _queue_rules(text: str | bytes) -> QueueRules:
    rules = _queue_rules_decoder.decode(text)
    for name in ("concurrency", "weight"):
        if getattr(rules, name) is not None:
            whole_number(getattr(rules, name), name, 1)
    return rules if rules.rate is None else rules._replace(rate=checked_rate(rules.rate))


_queue_rules_decoder = msgspec.json.Decoder(QueueRules)


def rules_of_row(
    queue: str, declared: str | bytes | None, adjusted: str | bytes | None
) -> tuple[QueueRules, QueueRules]:
    """What the app says of a queue, and what was set at run time."""
    return (
        queue_rules_in(queue, declared, "declared rules"),
        queue_rules_in(queue, adjusted, "adjusted rules"),
    )


def rules_in_force(
    queue: str, declared: str | bytes | None, adjusted: str | bytes | None
) -> QueueRules:
    """What was set at run time, and where that says nothing what is declared."""
    said, set_now = rules_of_row(queue, declared, adjusted)
    return set_now.over(said)


def rate_in(key: str, text: str | None) -> Rate | None:
    """The rate that was set for a key; none where it cannot be read."""
    return or_else("key", key, "rate", _rate, text, None) if text else None


def _rate(text: str) -> Rate | None:
    return checked_rate(msgspec.json.decode(text, type=Rate))


def event_name(text: str) -> EventName | str:
    """The name of an event; one that a newer version wrote is still told."""
    try:
        return EventName(text)
    except ValueError:
        return text


def reason_of(blocked: str | None) -> str | None:
    """What a blocked job waits for, kept as `reason:what`, as a sentence."""
    if blocked is None:
        return None
    reason, _, what = blocked.partition(":")
    if reason == "children":
        return "waits for its children"
    if reason == "key":
        return f"waits for its turn of key {what}"
    return Needs(reason, what).sentence()


@lru_cache(maxsize=1_000)  # the jobs of a task share theirs
def rules_text(rules: Rules | None) -> str | None:
    """What a job asks of the store, as it keeps it; None for nothing."""
    record = rules.record() if rules else None
    return to_json(record) if record else None


@lru_cache(maxsize=1_000)
def rules_read(text: str | None) -> Rules:
    """What a job asks of the store, from what `rules_text` wrote."""
    return rules_of(msgspec.json.decode(text)) if text else NO_RULES
