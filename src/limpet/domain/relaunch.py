"""Another chance for jobs that have failed: a new round, by itself, some time later."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from limpet.domain.checks import ErrorTypes, error_types, set_fields, some_time, whole
from limpet.domain.duration import Duration
from limpet.domain.errors import InvalidOption
from limpet.domain.retry import leaves_of


@dataclass(frozen=True, slots=True, init=False)
class Relaunch:
    """How often a failed job is opened again by itself, and how long after it failed.

    `at_most`: so many new rounds, each with all its attempts. `unless`: what was raised when it is
    of no use.
    """

    every: timedelta
    at_most: int
    unless: tuple[type[BaseException], ...]

    def __init__(self, every: Duration, at_most: int = 3, unless: ErrorTypes = ()) -> None:
        set_fields(
            self,
            at_most=whole(at_most, "Relaunch(at_most=…)"),
            every=some_time(every, "Relaunch(every=…)"),
            unless=error_types(unless, "Relaunch(unless=…)"),
        )

    @property
    def travels(self) -> bool:
        """Whether it is plain data, and so can be given to a single job."""
        return not self.unless

    def record(self) -> dict[str, Any]:
        """As it travels with the job: without exception classes."""
        return {"every": self.every.total_seconds(), "at_most": self.at_most}

    @staticmethod
    def from_record(record: object) -> "Relaunch | None":
        """Read what `record` made; None where this version cannot use it."""
        if not isinstance(record, Mapping):
            return None
        try:
            return Relaunch(record["every"], record["at_most"])
        except (KeyError, InvalidOption):
            return None

    def with_code_of(self, registered: "Relaunch | None") -> "Relaunch":
        """These numbers, with the exception classes of the task as registered."""
        return self if registered is None else replace(self, unless=registered.unless)

    def wait_after(self, relaunches: int, error: BaseException | None) -> timedelta | None:
        """How long after a failure the next round opens, of which so many opened by themselves
        before; None for never.

        `error`: what was raised, where that is known.
        """
        if relaunches >= self.at_most:
            return None
        known = () if error is None else (error, *leaves_of(error))
        if any(isinstance(each, self.unless) for each in known):
            return None
        return self.every
