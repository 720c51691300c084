"""When to try again: policies as data, decisions as pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from limpet.domain.duration import Duration, duration
from limpet.domain.errors import InvalidOption

Backoff = Literal["fixed", "exponential"]


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """How often an attempt may fail, and how long to wait before the next.

    `backoff` is "fixed", "exponential" (doubling from `delay`), or a list of the delays
    themselves, the last of which repeats. `jitter` is the share of each delay left to chance:
    0.1 makes ten seconds anything from nine to eleven.
    """

    attempts: int
    backoff: Backoff | tuple[timedelta, ...]
    delay: timedelta
    cap: timedelta
    jitter: float

    def __init__(
        self,
        attempts: int = 5,
        backoff: Backoff | Sequence[Duration] = "exponential",
        delay: Duration = timedelta(seconds=1),
        cap: Duration = timedelta(hours=1),
        jitter: float = 0.1,
    ) -> None:
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise InvalidOption(f"Retry(attempts={attempts!r}): write a whole number from 1 up.")
        if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
            raise InvalidOption(f"Retry(jitter={jitter!r}): write a share from 0 to 1.")
        if isinstance(backoff, str):
            if backoff not in ("fixed", "exponential"):
                raise InvalidOption(
                    f'Retry(backoff={backoff!r}): write "fixed", "exponential" or a list of delays.'
                )
            object.__setattr__(self, "backoff", backoff)
        elif not isinstance(backoff, list | tuple):
            raise InvalidOption(
                f'Retry(backoff={backoff!r}): write "fixed", "exponential" or a list of delays.'
            )
        else:
            delays = tuple(duration(each, what="a delay of Retry(backoff=[…])") for each in backoff)
            if not delays:
                raise InvalidOption("Retry(backoff=[]): the list of delays is empty.")
            object.__setattr__(self, "backoff", delays)
        object.__setattr__(self, "attempts", attempts)
        object.__setattr__(self, "delay", duration(delay, what="Retry(delay=…)"))
        object.__setattr__(self, "cap", duration(cap, what="Retry(cap=…)"))
        object.__setattr__(self, "jitter", jitter)

    def record(self) -> dict[str, Any]:
        """As it travels with the job."""
        backoff = (
            self.backoff
            if isinstance(self.backoff, str)
            else [each.total_seconds() for each in self.backoff]
        )
        return {
            "attempts": self.attempts,
            "backoff": backoff,
            "delay": self.delay.total_seconds(),
            "cap": self.cap.total_seconds(),
            "jitter": self.jitter,
        }


def wait_before_retry(policy: Retry, failures: int, chance: float) -> timedelta | None:
    """How long to wait after the `failures`-th failure; None when no attempt is left.

    `chance`, from 0 to 1, decides the jitter, so that the answer depends on nothing else.
    """
    if failures >= policy.attempts:
        return None
    if policy.backoff == "fixed":
        base = policy.delay
    elif policy.backoff == "exponential":
        # Beyond 2^40 every cap is reached; the bound keeps the multiplication small.
        base = min(policy.delay.total_seconds() * 2 ** min(failures - 1, 40), 1e9)
        base = timedelta(seconds=base)
    else:
        base = policy.backoff[min(failures, len(policy.backoff)) - 1]
    capped = min(base, policy.cap)
    return capped * (1 + policy.jitter * (2 * chance - 1))
