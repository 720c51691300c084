"""Values as the text that every store keeps, and the nouns that are read from it."""

import json
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from limpet.domain.cause import Cause, Needs, cause_of
from limpet.domain.event import EventName
from limpet.domain.rules import NO_RULES, Rules, rules_of

T = TypeVar("T")


def to_json(value: object) -> str:
    """JSON text, as the store keeps it."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # An exception's message may carry half a character, as in a file name; it is still told.
        return clean(json.dumps(value, ensure_ascii=False))


def from_json(text: str, kind: type[T]) -> T:
    """What a store keeps as JSON text."""
    return msgspec.json.decode(text, type=kind)


def clean(text: str) -> str:
    """A text that can be stored: what is not a character becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def error_of(record: str | None) -> Cause | None:
    """A cause as a store keeps it."""
    if record is None:
        return None
    read: dict[str, Any] = msgspec.json.decode(record)
    return cause_of(read)


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
