"""What a job asks of the store beside being run: turns of its key, to be the only one, children."""

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
    """For how long no other job of the task with the same `unique` is taken in.

    `started`: while it waits. `finished`: until it is in a final state. `time`: for `unique_for`
    after it was enqueued, whatever becomes of it.
    """

    STARTED = "started"
    FINISHED = "finished"
    TIME = "time"


class ChildFailure(StrEnum):
    """What it does to the parent when this job fails or is cancelled.

    `fail`: the parent fails. `skip`: it is left out of the parent's results. `keep`: the parent
    runs, and finds the error among them.
    """

    FAIL = "fail"
    SKIP = "skip"
    KEEP = "keep"


class Rules(NamedTuple):
    """Beside `key`, `unique` and `parent` of a job; each as if it were not there by default.

    `key_limit`: how many jobs of the key may be under way. `key_rate`: how often one may begin.
    `key_strict`: it keeps its turn while it waits for its next attempt. `replaces`: it takes the
    place of the one that waits. `children`: for how many jobs it waits. Times are microseconds.
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
        """What differs from the default, as a store keeps it in JSON."""
        return {
            name: value
            for name, value in self._asdict().items()
            if value != self._field_defaults[name]
        }


NO_RULES = Rules()


def rules_of(record: dict[str, Any]) -> Rules:
    """Read what `Rules.record` wrote; what this version does not know is passed over. Raises
    `ValueError` or `TypeError` for what no version has written.
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
