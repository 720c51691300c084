"""Why an attempt or a session ended, as answers show it."""

from msgspec import UNSET, Struct, UnsetType

from limpet.domain.cause import Cause
from limpet.domain.masking import NO_MASK, Mask

# The facts of a cause that a job or a person wrote; all others are Limpet's own.
_WORDS = frozenset({"message", "text", "traceback", "reason", "name"})


class CauseAnswer(Struct, frozen=True, kw_only=True):
    """Why something ended: the kind, the sentence, and the facts that this kind has.

    `seconds` is a duration, `last_seen` and `at` are wall time in microseconds, `used` and `limit`
    are bytes.
    """

    kind: str
    code: int | UnsetType = UNSET
    signal: int | UnsetType | None = UNSET
    process: str | UnsetType = UNSET
    last_seen: int | UnsetType = UNSET
    seconds: float | UnsetType = UNSET
    used: int | UnsetType | None = UNSET
    limit: int | UnsetType | None = UNSET
    boot: str | UnsetType = UNSET
    what: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    server: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    count: int | UnsetType = UNSET
    at: int | UnsetType = UNSET
    job: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    by: str | UnsetType = UNSET
    tried: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    traceback: str | UnsetType = UNSET
    was: str | UnsetType = UNSET
    text: str


def cause_answer(cause: Cause | None, mask: Mask = NO_MASK) -> CauseAnswer | None:
    """A cause with all its facts; only those that a job or a person wrote are masked."""
    if cause is None:
        return None
    record = cause.record()
    return CauseAnswer(**record | {name: mask(record[name]) for name in _WORDS & record.keys()})


def short_cause(cause: Cause | None) -> CauseAnswer | None:
    """Only the kind and the sentence of a cause, for lists."""
    return None if cause is None else CauseAnswer(kind=cause.kind, text=cause.sentence())
