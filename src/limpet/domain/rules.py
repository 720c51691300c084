"""A job's rules beyond being run: turns of its key, uniqueness, children."""

from enum import StrEnum
from typing import Any, NamedTuple

from limpet.domain.errors import InvalidOption
from limpet.domain.rate import Rate, checked_rate, whole_number

LONGEST_KEY = 200


def checked_key(text: str, what: str = "key") -> str:
    """Check a key or a unique, or refuse it with a sentence."""
    if not isinstance(text, str) or not 1 <= len(text) <= LONGEST_KEY or not text.isprintable():
        shown = f"{text[:20]!r}…" if isinstance(text, str) and len(text) > 20 else repr(text)
        raise InvalidOption(
            f"{what} is {shown}; write a text of 1 to {LONGEST_KEY} printable characters, such as "
            f'"customer:42".'
        )
    return text


class UniqueUntil(StrEnum):
    """How long the store takes in no other job of the task with the same `unique`.

    `started`: while the job waits. `finished`: until it is in a final state. `time`: for
    `unique_for` after it was enqueued, whatever becomes of it.
    """

    STARTED = "started"
    FINISHED = "finished"
    TIME = "time"


class ChildFailure(StrEnum):
    """What happens to the parent when this job fails or is cancelled.

    `fail`: the parent fails. `skip`: the parent runs without this job's result. `keep`: the parent
    runs, and finds this job's error among the results.
    """

    FAIL = "fail"
    SKIP = "skip"
    KEEP = "keep"


class Rules(NamedTuple):
    """The details of a job's `key`, `unique` and `parent`; a default means no rule.

    `key_limit`: how many jobs of the key may be under way. `key_rate`: how often one may begin.
    `key_strict`: the job keeps its turn while it waits for its next attempt. `unique_for`:
    microseconds. `replaces`: the job takes the place of a waiting one with the same `unique`.
    `children`: how many jobs it waits for.
    """

    key_limit: int = 1
    key_rate: Rate | None = None
    key_strict: bool = False
    unique_until: UniqueUntil = UniqueUntil.FINISHED
    unique_for: int | None = None
    replaces: bool = False
    children: int = 0
    child_failure: ChildFailure = ChildFailure.FAIL

    def record(self) -> dict[str, Any]:
        """The rules that differ from the default, as a store keeps them in JSON."""
        return {
            name: value
            for name, value in self._asdict().items()
            if value != self._field_defaults[name]
        }


NO_RULES = Rules()


def rules_of(record: dict[str, Any]) -> Rules:
    """Read what `Rules.record` wrote; rules that this version does not know are ignored.

    Raises `ValueError` or `TypeError` for a record that no version has written.
    """
    if not isinstance(record, dict):
        raise TypeError("rules are an object")
    known = {name: value for name, value in record.items() if name in Rules._fields}
    if known.get("key_rate") is not None:
        known["key_rate"] = checked_rate(Rate(*known["key_rate"]))
    if "unique_until" in known:
        known["unique_until"] = UniqueUntil(known["unique_until"])
    if "child_failure" in known:
        known["child_failure"] = ChildFailure(known["child_failure"])
    for name, least in (("key_limit", 1), ("unique_for", 0), ("children", 0)):
        value = known.get(name)
        if name in known and not (value is None and name == "unique_for"):
            whole_number(value, name, least)
    for name in ("key_strict", "replaces"):
        if not isinstance(known.get(name, False), bool):
            raise TypeError(f"{name} is neither true nor false")
    return Rules(**known)
