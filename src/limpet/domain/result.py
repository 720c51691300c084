"""A task's result with counts and warnings beside its value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from limpet.domain.checks import is_whole, refusal, set_fields
from limpet.domain.errors import InvalidOption
from limpet.domain.queue import checked_name

T = TypeVar("T")

MOST_COUNTS = 100
# Prefix of the name of a count in the totals of a queue.
COUNT = "count:"
# Name of the number of warnings in those totals.
WARNINGS = "warnings"
_FIELDS = {"value", "counts", "warnings"}


@dataclass(frozen=True, slots=True, init=False)
class Result(Generic[T]):
    """A result with counts and warnings; the counts are added up over all jobs of the queue.

    Stored as the JSON object {"value": …, "counts": {…}, "warnings": […]}.
    """

    value: T
    counts: Mapping[str, int]
    warnings: tuple[str, ...]

    def __init__(
        self,
        value: T,
        counts: Mapping[str, int] | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        counts, warnings = _checked_counts(counts or {}), _checked_warnings(warnings)
        set_fields(self, value=value, counts=counts, warnings=warnings)

    def check(self) -> None:
        """Check counts and warnings again, or refuse them with a sentence."""
        _checked_counts(self.counts)
        _checked_warnings(self.warnings)

    def totals(self) -> tuple[tuple[str, int], ...]:
        """What the store adds to the totals of the queue."""
        # Plain str and int: objects of a subclass, such as members of an enum, do not travel.
        counts = tuple((str.__str__(name), int(number)) for name, number in self.counts.items())
        return (*counts, (WARNINGS, len(self.warnings))) if self.warnings else counts

    def around(self, value: Any) -> dict[str, Any]:
        """The result as it is stored, around a value that is already in its stored form."""
        return {"value": value, "counts": dict(self.counts), "warnings": list(self.warnings)}


def has_shape(tree: object) -> bool:
    """Whether a stored result looks like one that `around` made."""
    return (
        isinstance(tree, dict)
        and tree.keys() == _FIELDS
        and isinstance(tree["counts"], dict)
        and isinstance(tree["warnings"], list)
    )


def _checked_counts(counts: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(counts, Mapping):
        raise refusal("Result(counts=…)", counts, 'names and numbers, such as {"emails": 42}')
    if len(counts) > MOST_COUNTS:
        raise InvalidOption(
            f"Result has {len(counts)} counts; write at most {MOST_COUNTS}, and put the rest into "
            f"its value."
        )
    for name, number in counts.items():
        checked_name(name, "Result: the count")
        if name == WARNINGS:
            raise InvalidOption(
                'Result: the count "warnings" is the number of its warnings; choose another name.'
            )
        if not is_whole(number) or not 0 <= number < 2**53:
            raise refusal(f"Result(counts={{{name!r}: …}})", number, "a whole number from 0 up")
    return dict(counts)


def _checked_warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    texts = isinstance(warnings, list | tuple) and all(isinstance(text, str) for text in warnings)
    if not texts:
        raise refusal("Result(warnings=…)", warnings, "a list of texts")
    return tuple(warnings)
