"""Values as the text that every store keeps, and the domain objects that are read from it."""

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
        # An exception's message may carry half a character, as in a file name; keep the rest.
        return clean(json.dumps(value, ensure_ascii=False))


def strict_json(value: object) -> str:
    """JSON text without any repair; raises `UnicodeEncodeError` for an invalid text."""
    return msgspec.json.encode(value).decode()


def from_json(text: str, kind: type[T]) -> T:
    """The value of a JSON text that a store keeps."""
    return msgspec.json.decode(text, type=kind)


def clean(text: str) -> str:
    """A text that can be stored: half characters become question marks."""
    return text.encode("utf-8", "replace").decode()


UNREADABLE_CAUSE: Cause = Unknown("unreadable", "the cause in the store cannot be read")


def cause_in(
    kind: str,
    row: str,
    record: str | bytes | None,
    name: str = "cause",
    faults: list[str] | None = None,
) -> Cause | None:
    """The cause in the field `name` of a stored row; `UNREADABLE_CAUSE` if it cannot be read."""
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
    """The paths of masked fields; if they cannot be read, everything is masked."""
    if not record or record == "[]":
        return ()
    return or_else(kind, row, name, _paths, record, (EVERYTHING,), faults)


_paths = msgspec.json.Decoder(tuple[str, ...]).decode


def rules_in(row: str | int, record: str | None, faults: list[str] | None = None) -> Rules:
    """The rules of a job (`row`: its id or number), as `rules_text` wrote them; no rules if they
    cannot be read.
    """
    if record is None:
        return NO_RULES
    return or_else("job", row, "rules", rules_read, record, NO_RULES, faults)


def has_hook(job: str, options: str) -> bool:
    """Whether a job's options request a last run after the last loss."""
    return "orphan_hook" in options and or_else("job", job, "options", _hook, options, False)


def _hook(options: str) -> bool:
    return bool(msgspec.json.decode(options, type=dict[str, Any]).get("orphan_hook"))


def repaired(options: str) -> str:
    """The options of a job that is repaired: unchanged, or empty if they cannot be read."""
    return "{}" if isinstance(options_in(options), str) else options


class TravellingOptions(msgspec.Struct, frozen=True):
    """The options of a job that this version knows; times are seconds. Stored options that it does
    not know are kept.
    """

    timeout: Annotated[float, msgspec.Meta(ge=0)] | None = None
    stall_after: Annotated[float, msgspec.Meta(ge=0)] | None = None
    retry: dict[str, Any] | None = None
    relaunch: dict[str, Any] | None = None


_options_decoder = msgspec.json.Decoder(TravellingOptions)


@lru_cache(maxsize=1_000)  # jobs of one task mostly have the same options
def options_in(options: str) -> TravellingOptions | str:
    """A job's options for its executor, or a sentence about what is wrong with them."""
    try:
        return _options_decoder.decode(options)
    except NONSENSE as error:
        return f"its options cannot be read ({why(error)})"


def queue_rules_in(queue: str, text: str | bytes | None, name: str) -> QueueRules:
    """The rules of a queue from the field `name` of its row; no rules if they cannot be read."""
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
    """The rules of a queue that the app declares, and those set at run time."""
    return (
        queue_rules_in(queue, declared, "declared rules"),
        queue_rules_in(queue, adjusted, "adjusted rules"),
    )


def rules_in_force(
    queue: str, declared: str | bytes | None, adjusted: str | bytes | None
) -> QueueRules:
    """The rules in force: those set at run time, and for all others the declared ones."""
    from_app, set_now = rules_of_row(queue, declared, adjusted)
    return set_now.over(from_app)


def rate_in(key: str, text: str | None) -> Rate | None:
    """The rate that was set for a key; None if it cannot be read."""
    return or_else("key", key, "rate", _rate, text, None) if text else None


def _rate(text: str) -> Rate | None:
    return checked_rate(msgspec.json.decode(text, type=Rate))


def event_name(text: str) -> EventName | str:
    """The name of an event; a name that only newer versions know stays text."""
    try:
        return EventName(text)
    except ValueError:
        return text


def reason_of(blocked: str | None) -> str | None:
    """The stored reason `reason:what` of a blocked job as a sentence."""
    if blocked is None:
        return None
    reason, _, what = blocked.partition(":")
    if reason == "children":
        return "waits for its children"
    if reason == "key":
        return f"waits for its turn of key {what}"
    return Needs(reason, what).sentence()


@lru_cache(maxsize=1_000)  # jobs of one task mostly have the same rules
def rules_text(rules: Rules | None) -> str | None:
    """The rules of a job as the store keeps them; None for no rules."""
    record = rules.record() if rules else None
    return to_json(record) if record else None


@lru_cache(maxsize=1_000)
def rules_read(text: str | None) -> Rules:
    """The rules of a job from the text of `rules_text`."""
    return rules_of(msgspec.json.decode(text)) if text else NO_RULES
