"""Relaunch: a failed job gets another round by itself, some time later."""

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
    """How often a failed job gets another round by itself, and how long after the failure.

    `at_most`: the number of such rounds, each with all its attempts. `unless`: errors after which
    another round is of no use.
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
        """The policy as it travels with the job: no exception classes."""
        return {"every": self.every.total_seconds(), "at_most": self.at_most}

    @staticmethod
    def from_record(record: object) -> "Relaunch | None":
        """Read what `record` made; None if this version cannot use it."""
        if not isinstance(record, Mapping):
            return None
        try:
            return Relaunch(record["every"], record["at_most"])
        except (KeyError, InvalidOption):
            return None

    def with_code_of(self, registered: "Relaunch | None") -> "Relaunch":
        """These numbers, with the exception classes of the registered task."""
        return self if registered is None else replace(self, unless=registered.unless)

    def wait_after(self, relaunches: int, error: BaseException | None) -> timedelta | None:
        """How long after a failure the next round opens; None for never.

        `relaunches`: how many rounds opened by themselves before. `error`: what was raised, if that
        is known.
        """
        if relaunches >= self.at_most:
            return None
        known = () if error is None else (error, *leaves_of(error))
        if any(isinstance(leaf, self.unless) for leaf in known):
            return None
        return self.every
