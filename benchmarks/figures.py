"""Figures of several runs, and their tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

NOT_MEASURED = "not measured"


@dataclass
class Figures:
    """Values by contender and figure, one per run; and the figures that could not be taken."""

    run: int = 0
    values: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    troubles: dict[str, None] = field(default_factory=dict)

    def add(self, who: str, what: str, value: float) -> None:
        self.values.setdefault((who, what), {})[self.run] = value
        print(f"{who}, {what}: {shown(value)}", flush=True)

    def miss(self, who: str, why: str) -> None:
        """Note and print a trouble once, however often it happens."""
        sentence = f"{who}: {why}"
        if sentence not in self.troubles:
            print(f"not measured: {sentence}", flush=True)
        self.troubles[sentence] = None

    def of(self, who: str, what: str) -> dict[int, float]:
        return self.values.get((who, what), {})

    def cell(self, who: str, what: str) -> str:
        return spread(list(self.of(who, what).values()))


def best(rows: Iterable[Mapping[int, float]]) -> Mapping[int, float]:
    """The row with the highest median.

    Not the highest of each run: the highest of several noisy figures is above all their medians.
    """
    return max((row for row in rows if row), key=lambda row: median(row.values()), default={})


def shown(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.01 else f"{value:.2g}" if value >= 0.0005 else "0"


def spread(values: Sequence[float]) -> str:
    """The median, with the least and the most."""
    if not values:
        return NOT_MEASURED
    if len(values) == 1:
        return shown(values[0])
    return f"{shown(median(values))} ({shown(min(values))} to {shown(max(values))})"


def ratios(above: Mapping[int, float], below: Mapping[int, float]) -> list[float]:
    """Ratios run by run: only values of the same run are compared."""
    return [value / below[run] for run, value in above.items() if run in below]


def reached(good: bool | None) -> str:
    """The last column: yes, no, or not measured; a missed goal stands out."""
    return NOT_MEASURED if good is None else "yes" if good else "**no**"


def at_least(values: Sequence[float], goal: float) -> bool | None:
    return median(values) >= goal if values else None


def at_most(values: Sequence[float], goal: float) -> bool | None:
    return median(values) <= goal if values else None


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table; figures are aligned to the right."""
    line = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(row)} |" for row in [head, line, *rows]]
