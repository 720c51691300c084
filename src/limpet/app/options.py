"""The options of a job: given with the task, changed with `using(...)`."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from limpet.app.unique import Unique
from limpet.domain.checks import MOST, choice, instance, some_time, whole
from limpet.domain.duration import Duration, duration, microseconds
from limpet.domain.errors import InvalidOption
from limpet.domain.queue import DEFAULT_QUEUE, checked_name, priority_level
from limpet.domain.rate import Rate, rate_of
from limpet.domain.relaunch import Relaunch
from limpet.domain.retry import Retry
from limpet.domain.rules import NO_RULES, Rules, UniqueUntil, checked_key
from limpet.domain.weight import Weight

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The limits of one attempt: how long it may take, and go without progress; seconds in the record.
_LIMITS = ("timeout", "stall_after")
TRAVELLING = frozenset({*_LIMITS, "retry", "relaunch"})
"""The options that travel with the job to the worker; the store uses the others."""

Moment = Duration | datetime
"""A time from now, or a date and time with its time zone."""

KeyOrder = Literal["free", "strict"]


class Shape(NamedTuple):
    """The key, unique name and rules by which the store shapes a job; see `domain.rules`."""

    key: str | None
    unique: str | None
    rules: Rules | None


class JobOptions(msgspec.Struct, frozen=True):
    """The options of a job beside its arguments.

    `key`: jobs of one key run in order, one at a time or `key_limit` at a time, and begin no more
    often than `key_rate`; with `key_order="strict"` the next job also waits while the job before it
    waits for its next attempt. `unique`: a text, or `Unique(…)`; another job of the task with the
    same name is not taken in. `delay`: do not start before. `expires`: drop the job if it has not
    started by then. `deadline`: all attempts together end by then. `timeout`: the longest time of
    one attempt. `stall_after`: the longest time that an attempt may go without `ctx.progress`.
    `relaunch`: how a failed job opens its next round by itself. `within`: the user's own
    connection; the job is committed with its transaction.

    A struct, because a job that names its own key has its own copy.
    """

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    delay: Moment | None = None
    expires: Moment | None = None
    deadline: Moment | None = None
    timeout: Duration | None = None
    stall_after: Duration | None = None
    retry: Retry | None = None
    relaunch: Relaunch | None = None
    key: str | None = None
    key_limit: int | None = None
    key_rate: str | Rate | None = None
    key_order: KeyOrder | None = None
    unique: str | Unique | None = None
    within: object = None

    def changed(self, changes: Mapping[str, Any], beside: Iterable[str] = ()) -> "JobOptions":
        """These options with some replaced; raises `InvalidOption` for a wrong name or value.

        `beside`: other options that may stand beside these, for the error of a misspelt name.
        """
        for name, value in changes.items():
            check = _CHECKS.get(name)
            if check is None:
                unknown = ", ".join(sorted(set(changes) - set(_CHECKS)))
                known = ", ".join((*_CHECKS, *beside))
                raise InvalidOption(f"unknown option {unknown}; known are {known}.")
            if value is not None or name in _NEVER_NONE:
                check(value, name)
        return msgspec.structs.replace(self, **changes)

    def only_one(self) -> Unique | None:
        """The option `unique` in its full form."""
        return Unique(self.unique) if isinstance(self.unique, str) else self.unique

    def shape(self) -> Shape | None:
        """The shape of a job with these options; None for a plain job.

        A task may limit keys that only its jobs name, so a missing key is an error only here.
        """
        if self.key is None:
            for name in ("key_limit", "key_rate", "key_order"):
                if getattr(self, name) is not None:
                    raise InvalidOption(
                        f"{name} is {getattr(self, name)!r}, but the job has no key to which that "
                        f'would apply; name one: using(key="…").'
                    )
        unique = self.only_one()
        if unique is None:
            if self.key is None:
                return None
            return Shape(self.key, None, _rules(self.key_limit, self.key_rate, self.key_order))
        replaces = unique.on_conflict == "replace"
        rules = _rules(
            self.key_limit, self.key_rate, self.key_order, unique.until, unique.lasts, replaces
        )
        return Shape(self.key, unique.name, rules)

    def record(self, *, orphan_hook: bool = False, weight: Weight | None = None) -> str:
        """What travels with the job to the worker, as JSON; the weight is there for people only."""
        travelling: dict[str, Any] = {"orphan_hook": True} if orphan_hook else {}
        for name in _LIMITS:
            value = getattr(self, name)
            if value is not None:
                travelling[name] = duration(value).total_seconds()
        if self.retry is not None:
            travelling["retry"] = self.retry.record()
        if self.relaunch is not None:
            travelling["relaunch"] = self.relaunch.record()
        if weight is not None:
            travelling["weight"] = weight.record()
        return msgspec.json.encode(travelling).decode()


def at(value: Moment, now: int, name: str) -> int:
    """A moment as wall time in microseconds."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidOption(
                f"{name} is {value!r}, which has no time zone; write for example "
                f"datetime.now(UTC) + timedelta(hours=1)."
            )
        return microseconds(value - _EPOCH)
    return now + microseconds(duration(value, what=name))


@lru_cache(256)
def _rules(
    key_limit: int | None,
    key_rate: str | Rate | None,
    key_order: str | None,
    until: UniqueUntil = UniqueUntil.FINISHED,
    lasts: int | None = None,
    replaces: bool = False,
) -> Rules | None:
    rules = Rules(
        key_limit=key_limit or 1,
        key_rate=None if key_rate is None else rate_of(key_rate),
        key_strict=key_order == "strict",
        unique_until=until,
        unique_for=lasts,
        replaces=replaces,
    )
    return None if rules == NO_RULES else rules


def _moment(value: Moment, name: str) -> None:
    at(value, 0, name)


def _unique(value: Any, name: str) -> None:
    if not isinstance(value, Unique):
        checked_key(value, name)


_NEVER_NONE = frozenset({"queue", "priority"})
_CHECKS: dict[str, Callable[[Any, str], object]] = {
    "queue": checked_name,
    "priority": lambda value, name: priority_level(value),
    "delay": _moment,
    "expires": _moment,
    "deadline": _moment,
    "timeout": some_time,
    "stall_after": some_time,
    "retry": lambda value, name: instance(value, name, Retry, "limpet.Retry(…)"),
    "relaunch": lambda value, name: instance(value, name, Relaunch, "limpet.Relaunch(…)"),
    "key": checked_key,
    "key_limit": lambda value, name: whole(value, name, most=MOST),
    "key_rate": lambda value, name: rate_of(value, what=name),
    "key_order": lambda value, name: choice(value, name, get_args(KeyOrder)),
    "unique": _unique,
    "within": lambda value, name: None,
}
