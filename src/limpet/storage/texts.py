"""Values as the text that every store keeps, and the nouns that are read from it."""

import json
from typing import Any, TypeVar

import msgspec

from limpet.domain.cause import Cause, Needs, cause_of
from limpet.domain.event import EventName

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
    return Needs(reason, what).sentence()
