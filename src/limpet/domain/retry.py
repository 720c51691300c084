"""When to try again: policies as data, decisions as pure functions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import Any, Literal, Protocol, TypeAlias

from limpet.domain import transition
from limpet.domain.cause import Cause, DeadlinePassed
from limpet.domain.checks import ErrorTypes, error_types, set_fields, share, whole
from limpet.domain.duration import Duration, duration, microseconds
from limpet.domain.ending import Ending
from limpet.domain.errors import (
    AttemptStopped,
    InvalidOption,
    RateLimited,
    RetryAfter,
    Snooze,
    Unrecoverable,
)
from limpet.domain.lease import Lease
from limpet.domain.raised import raised

Backoff = Literal["fixed", "exponential"]
BackoffFunction: TypeAlias = Callable[[int, BaseException], Duration]
"""(failures so far, this one included; what was raised) → how long to wait."""


class Delays(Protocol):
    """A list or a tuple of durations.

    A text does not fit this type, although it is a sequence of texts: only texts can be `in` it.
    """

    def __contains__(self, value: object, /) -> bool: ...

    def __iter__(self) -> Iterator[Duration]: ...


_CUSTOM = "custom"
_NUMBERS = ("attempts", "backoff", "delay", "cap", "jitter")


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """How often an attempt may fail, and how long to wait before the next.

    `backoff` is "fixed", "exponential" (doubling from `delay`), a list of the delays themselves,
    whose last one repeats, or a function of (failures, error), whose answer is used unchanged.
    `jitter` is the share of each delay left to chance: 0.1 makes ten seconds anything from nine
    to eleven. `retry_on`: errors that are worth another attempt; `give_up_on`: errors that are not,
    although they are in `retry_on`.
    """

    attempts: int
    backoff: Literal["fixed", "exponential", "custom"] | tuple[timedelta, ...] | BackoffFunction
    delay: timedelta
    cap: timedelta
    jitter: float
    retry_on: tuple[type[BaseException], ...]
    give_up_on: tuple[type[BaseException], ...]

    def __init__(
        self,
        attempts: int = 5,
        backoff: Backoff | Delays | BackoffFunction = "exponential",
        delay: Duration = timedelta(seconds=1),
        cap: Duration = timedelta(hours=1),
        jitter: float = 0.1,
        retry_on: ErrorTypes = Exception,
        give_up_on: ErrorTypes = (),
    ) -> None:
        set_fields(
            self,
            attempts=whole(attempts, "Retry(attempts=…)"),
            backoff=_checked_backoff(backoff),
            delay=duration(delay, what="Retry(delay=…)"),
            cap=duration(cap, what="Retry(cap=…)"),
            jitter=share(jitter, "Retry(jitter=…)"),
            retry_on=error_types(retry_on, "Retry(retry_on=…)"),
            give_up_on=error_types(give_up_on, "Retry(give_up_on=…)"),
        )

    @property
    def travels(self) -> bool:
        """Whether it is plain data, and so can be given to a single job."""
        return not callable(self.backoff) and (self.retry_on, self.give_up_on) == ((Exception,), ())

    def record(self) -> dict[str, Any]:
        """The policy as it travels with the job: no functions and no exception classes."""
        backoff = self.backoff
        if callable(backoff):
            travelling: str | list[float] = _CUSTOM
        elif isinstance(backoff, str):
            travelling = backoff
        else:
            travelling = [delay.total_seconds() for delay in backoff]
        return {
            "attempts": self.attempts,
            "backoff": travelling,
            "delay": self.delay.total_seconds(),
            "cap": self.cap.total_seconds(),
            "jitter": self.jitter,
        }

    @staticmethod
    def from_record(record: object) -> "Retry":
        """Read what `record` made; a value that this version cannot use becomes the default."""
        if not isinstance(record, Mapping):
            return Retry()
        numbers = {name: record[name] for name in _NUMBERS if name in record}
        custom = numbers.get("backoff") == _CUSTOM
        if custom:
            del numbers["backoff"]
        try:
            policy = Retry(**numbers)
        except Exception:  # made by another version: keep what can be kept
            policy = Retry(**{name: numbers[name] for name in numbers if _usable(name, numbers)})
        if custom:
            set_fields(policy, backoff=_CUSTOM)
        return policy

    def with_code_of(self, registered: "Retry | None") -> "Retry":
        """These numbers, with the exception classes and the function of the registered task."""
        code = registered or Retry()
        backoff: Any = self.backoff
        if backoff == _CUSTOM or callable(backoff):
            backoff = code.backoff if callable(code.backoff) else "exponential"
        return replace(self, backoff=backoff, retry_on=code.retry_on, give_up_on=code.give_up_on)


def _checked_backoff(
    backoff: Backoff | Delays | BackoffFunction,
) -> Backoff | tuple[timedelta, ...] | BackoffFunction:
    if isinstance(backoff, list | tuple):
        if not backoff:
            raise InvalidOption("Retry(backoff=[]): the list of delays is empty.")
        return tuple(duration(delay, what="a delay of Retry(backoff=[…])") for delay in backoff)
    if backoff == "fixed" or backoff == "exponential":  # noqa: PLR1714 - mypy narrows only this
        return backoff
    if callable(backoff) and not isinstance(backoff, type) and not iscoroutinefunction(backoff):
        return backoff
    raise InvalidOption(
        f'Retry(backoff={backoff!r}): write "fixed", "exponential", a list of delays, or a plain '
        f"function of (failures, error)."
    )


def _usable(name: str, numbers: dict[str, Any]) -> bool:
    try:
        Retry(**{name: numbers[name]})
    except Exception:
        return False
    return True


def wait_before_retry(policy: Retry, failures: int, chance: float) -> timedelta | None:
    """How long to wait after the `failures`-th failure; None when no attempt is left.

    `chance`, from 0 to 1, decides the jitter, so that the answer depends only on the arguments. A
    backoff function counts as exponential here; `judge` calls it.
    """
    if failures >= policy.attempts:
        return None
    if policy.backoff == "fixed":
        base = policy.delay
    elif isinstance(policy.backoff, tuple):
        base = policy.backoff[min(failures, len(policy.backoff)) - 1]
    else:
        # Beyond 2^40 every cap is reached; the bound keeps the multiplication small.
        seconds = min(policy.delay.total_seconds() * 2 ** min(failures - 1, 40), 1e9)
        base = timedelta(seconds=seconds)
    capped = min(base, policy.cap)
    return capped * (1 + policy.jitter * (2 * chance - 1))


def judge(
    lease: Lease, error: BaseException, policy: Retry, failures: int, *, chance: float, now: int
) -> Ending:
    """The ending of an attempt that raised `error`, after `failures` earlier failures.

    An exception by which a task decides itself (`Unrecoverable`, `RetryAfter`, `Snooze`) comes
    before the policy, also when an exception group carries it. A stop that is not charged to the
    job, such as a drain, spends nothing. `now`: wall time in microseconds; delays begin there.
    """
    leaves = leaves_of(error)
    decisive = _decisive(leaves)
    if isinstance(decisive, Snooze):
        return _snoozed(lease, now, decisive.delay, holds=isinstance(decisive, RateLimited))
    if isinstance(decisive, AttemptStopped) and not decisive.cause.charged:
        return _snoozed(lease, now, timedelta(), holds=False)
    cause = decisive.cause if isinstance(decisive, AttemptStopped) else raised(error)
    if isinstance(decisive, Unrecoverable) or isinstance(cause, DeadlinePassed):
        return Ending(transition.Fail(lease, cause), final=True)
    if isinstance(decisive, RetryAfter):
        if failures + 1 < policy.attempts:
            return _retried(lease, now, decisive.delay, cause)
        return Ending(transition.Fail(lease, cause))
    if any(isinstance(leaf, policy.give_up_on) for leaf in (error, *leaves)):
        return Ending(transition.Fail(lease, cause))
    worth_it = isinstance(decisive, AttemptStopped) or isinstance(error, policy.retry_on)
    if not worth_it and not all(isinstance(leaf, policy.retry_on) for leaf in leaves):
        return Ending(transition.Fail(lease, cause))
    wait, note = _wait(error, policy, failures + 1, chance)
    if wait is None:
        return Ending(transition.Fail(lease, cause))
    return _retried(lease, now, wait, cause, note)


def _retried(lease: Lease, now: int, delay: timedelta, cause: Cause, note: str = "") -> Ending:
    return Ending(transition.RetryAt(lease, now + microseconds(delay), cause), delay, note)


def _snoozed(lease: Lease, now: int, delay: timedelta, *, holds: bool) -> Ending:
    return Ending(transition.SnoozeUntil(lease, now + microseconds(delay), holds), delay)


def leaves_of(error: BaseException) -> tuple[BaseException, ...]:
    """The exceptions of a group, at any depth; a single exception is its own leaf."""
    return tuple(_leaves(error))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _leaves(member)
    else:
        yield error


def _decisive(leaves: Sequence[BaseException]) -> BaseException | None:
    """The exception that decides before the policy does, the strongest first; None if none does."""
    for kind in (Unrecoverable, AttemptStopped, RetryAfter):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    # A snooze must not hide a failure beside it.
    if not all(isinstance(leaf, Snooze) for leaf in leaves):
        return None
    # One rate limit among the snoozes holds the whole queue.
    return next((leaf for leaf in leaves if isinstance(leaf, RateLimited)), leaves[0])


def _wait(
    error: BaseException, policy: Retry, failures: int, chance: float
) -> tuple[timedelta | None, str]:
    """How long to wait before the next attempt (None: there is none), and a note for the log."""
    wait = wait_before_retry(policy, failures, chance)
    if wait is None or not callable(policy.backoff):
        return wait, ""
    try:
        answer = policy.backoff(failures, error)
        return duration(answer, what="the answer of the backoff function"), ""
    except BaseException as wrong:  # even sys.exit() there must not lose the attempt
        failed = f"the backoff function failed ({raised(wrong)})"
        return wait, f"{failed}; the wait is exponential instead"
