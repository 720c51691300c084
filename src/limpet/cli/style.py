"""Texts, bars and tables as a terminal shows them.

The text of a cell may come from anybody: characters that a terminal would obey are escaped before
rich sees the text, and rich gets a `Text`, in which nothing is markup.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.console import RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from limpet.cli.terminal import console
from limpet.domain.printable import MARK, printable, printable_lines
from limpet.domain.state import State

_BLOCKS = "▁▂▃▄▅▆▇█"
_GAP = 2  # between two columns


class Style(StrEnum):
    """What a text means; the value is rich's name for its look."""

    PLAIN = ""
    FAINT = "dim"
    HEAD = "bold"
    GOOD = "green"
    WARN = "yellow"
    BAD = "red"


OF_STATES = {
    State.RUNNING: Style.GOOD,
    State.BLOCKED: Style.WARN,
    State.QUARANTINED: Style.BAD,
    State.FAILED: Style.BAD,
    State.SUCCEEDED: Style.FAINT,
    State.CANCELLED: Style.FAINT,
}

Span = tuple[object, Style]
Row = Sequence[RenderableType]


def text(value: object, style: Style = Style.PLAIN) -> Text:
    """A text in one line; where it does not fit it is cut and ends with an ellipsis."""
    return Text(printable(value), style=style, no_wrap=True, overflow="ellipsis")


def line(*spans: Span, wraps: bool = False) -> Text:
    """Texts of several styles in one line; `wraps`: in more lines where one is too short."""
    whole = Text() if wraps else text("")
    for value, style in spans:
        whole.append(printable(value), style=style.value)
    return whole


def marked(value: object) -> Table:
    """A text of several lines, each behind a mark; a long line is folded beside its mark."""
    rows = Table.grid()
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    for row_text in printable_lines(value):
        rows.add_row(MARK, Text(row_text))
    return rows


def block(value: object, style: Style = Style.PLAIN) -> Text:
    """A text of several lines, each but the first behind a mark, so that none can be forged."""
    return Text(f"\n{MARK}".join(printable_lines(value)), style=style.value)


def state_text(state: State) -> Text:
    """The state of a job."""
    return text(state.value, OF_STATES.get(state, Style.PLAIN))


def bar(fraction: float, cells: int, style: Style = Style.GOOD) -> ProgressBar:
    """A progress bar; `fraction` is from 0 to 1."""
    look = style.value or "none"
    return ProgressBar(
        total=1.0,
        completed=max(0.0, min(1.0, fraction)),
        width=cells,
        style="bright_black",
        complete_style=look,
        finished_style=look,
    )


def beside(*parts: RenderableType) -> Table:
    """Several things in one line; where they do not fit, the last one is cut."""
    row = Table.grid()
    for place in range(len(parts)):
        row.add_column(no_wrap=place < len(parts) - 1, overflow="ellipsis")
    row.add_row(*parts)
    return row


def blocks(percents: Sequence[float | None]) -> str:
    """One cell per share, as high as the share; blank where the share is unknown."""
    return "".join(" " if percent is None else _block(percent) for percent in percents)


def _block(percent: float) -> str:
    return _BLOCKS[min(len(_BLOCKS) - 1, int(max(0.0, percent) / 100 * len(_BLOCKS)))]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; the column with the lowest `keep` goes first when the table is too wide.

    `least`: the fewest cells to which the column may be cut; 0: it is never cut.
    `optional`: the column is not shown where all its cells are empty.
    """

    head: str
    keep: int
    right: bool = False
    least: int = 0
    optional: bool = False


def table(
    heads: Sequence[Column], rows: Sequence[Row], width: int | None, indent: int = 0
) -> RenderableType:
    """A table that fits into `width` columns of a terminal; whole where `width` is None."""
    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style=Style.FAINT.value)
    sizes = _sizes(heads, rows, width, indent)
    for place, size in sizes.items():
        made.add_column(
            text(heads[place].head),
            justify="right" if heads[place].right else "left",
            width=size,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in rows:
        made.add_row(*(row[place] for place in sizes))
    return Padding(made, (0, 0, 0, indent), expand=False) if indent else made


def left_out(
    heads: Sequence[Column], rows: Sequence[Row], width: int | None, indent: int = 0
) -> list[Text]:
    """A line below a table that names the columns that did not fit."""
    sizes = _sizes(heads, rows, width, indent)
    names = [heads[place].head for place in _filled(heads, rows) if place not in sizes]
    words = f"no room for {', '.join(names)}: a wider terminal or --json has them"
    return [line((words, Style.FAINT), wraps=True)] if names else []


def _sizes(
    heads: Sequence[Column], rows: Sequence[Row], width: int | None, indent: int
) -> dict[int, int]:
    """The width of each column that is shown, by its place."""
    natural = [
        max(len(head.head), *(_cells(row[place]) for row in rows), 1)
        for place, head in enumerate(heads)
    ]
    shown = _filled(heads, rows)
    if width is None:
        return {place: natural[place] for place in shown}
    while (sizes := _cut(heads, natural, shown, width - indent)) is None:
        if len(shown) == 1:
            return {shown[0]: max(1, width - indent)}
        shown.remove(min(shown, key=lambda place: heads[place].keep))
    return dict(zip(shown, sizes, strict=True))


def _filled(heads: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    """The columns that have something to show."""
    return [
        place
        for place, head in enumerate(heads)
        if not head.optional or any(_cells(row[place]) for row in rows)
    ]


def _cells(cell: RenderableType) -> int:
    if isinstance(cell, Text):
        return cell.cell_len
    measuring = console()
    return Measurement.get(measuring, measuring.options, cell).maximum


def _cut(
    heads: Sequence[Column], natural: Sequence[int], shown: Sequence[int], width: int
) -> list[int] | None:
    """The width of each column, or None if even the smallest widths do not fit."""
    sizes = [natural[place] for place in shown]
    over = sum(sizes) + _GAP * (len(sizes) - 1) - width
    for at, place in reversed(list(enumerate(shown))):
        if over > 0 and heads[place].least:
            given = min(over, max(0, sizes[at] - heads[place].least))
            sizes[at] -= given
            over -= given
    return sizes if over <= 0 else None
