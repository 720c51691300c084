"""What becomes of a job after an attempt that raised; `domain.retry.judge` decides."""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from limpet.domain.cause import Cause


@dataclass(frozen=True, slots=True)
class Again:
    """Another attempt after `delay`; one failure is spent.

    `note`: what went wrong with deciding the delay, for the log; empty when nothing did.
    """

    delay: timedelta
    cause: Cause
    note: str = ""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further attempt: the job fails. `final`: nor does it get another chance by itself."""

    cause: Cause
    final: bool = False


@dataclass(frozen=True, slots=True)
class Later:
    """The job comes back after `delay`; nothing is spent. `holds`: its queue waits as well."""

    delay: timedelta
    holds: bool = False


Verdict: TypeAlias = Again | GiveUp | Later
