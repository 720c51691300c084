"""A part of the benchmark, which can run with the others or alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import processes
import scale
from contender import Contender, Trouble
from figures import NOT_MEASURED, Figures

Measures = Sequence[tuple[Contender, Callable[[], None]]]


@dataclass(frozen=True)
class Part:
    """`measures`: the figures of one run, in their order. `report`: the lines of the table."""

    name: str
    measures: Callable[[scale.Scale, Figures], Measures]
    report: Callable[[Figures], list[str]]


def take(part: Part, chosen: scale.Scale, figures: Figures) -> None:
    """Take every figure of a part once; each run begins at another place of the order."""
    measures = [row for row in part.measures(chosen, figures) if chosen.only in row[0].name]
    offset = figures.run % max(len(measures), 1)
    for contender, measure in [*measures[offset:], *measures[:offset]]:
        why = contender.missing()
        try:
            if why is not None:
                raise Trouble(why)
            measure()
        except Trouble as trouble:
            figures.miss(f"{contender.name} ({part.name})", str(trouble))


def run_alone(part: Part, description: str | None) -> None:
    """The command line of a part."""
    chosen = scale.from_command_line(description)
    processes.leave_in_order()
    figures = Figures()
    for figures.run in range(chosen.runs):
        take(part, chosen, figures)
    print("\n" + "\n".join(_chosen_rows(part.report(figures), chosen.only)))


def _chosen_rows(lines: list[str], only: str) -> list[str]:
    """The lines without rows that were not measured, because they were not chosen."""
    return [line for line in lines if NOT_MEASURED not in line or only in line]
