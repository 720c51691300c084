"""Text on a terminal: how wide it is, how it is cut, coloured and put into columns.

A line is kept as spans of text with a style until it is printed, so that no escape sequence is
ever cut in two. The text of a span may be anybody's: what a terminal would obey in it is escaped
when it is painted, and counted like that when it is measured or cut.
"""

import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TextIO

from limpet.domain.printable import printable


class Style(StrEnum):
    """What a span of text means; the value is its SGR code."""

    PLAIN = ""
    FAINT = "2"
    HEAD = "1"
    GOOD = "32"
    WARN = "33"
    BAD = "31"


Span = tuple[str, Style]
Line = tuple[Span, ...]

# Where nobody says how wide the paper is.
_PAPER_COLUMNS = 100

_BLOCKS = "▁▂▃▄▅▆▇█"
_PLAINER = str.maketrans(
    {"█": "#", "░": "-", "…": "~", "✓": "+", "✗": "x", "·": "-"}
    | dict(zip(_BLOCKS[:-1], "_.,:-=+", strict=True))
)


@dataclass(frozen=True, slots=True)
class Palette:
    """What a stream can show."""

    colours: bool
    unicode: bool

    @classmethod
    def of(cls, stream: TextIO) -> "Palette":
        """Colours for terminals only, and not where NO_COLOR asks for none."""
        colours = (
            stream.isatty()
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM", "dumb") != "dumb"
        )
        return cls(colours, (stream.encoding or "").lower().replace("-", "") == "utf8")

    def paint(self, line: Line) -> str:
        """The line as it is written, without its end; no other escape sequence than those of its
        colours is in it.
        """
        text = "".join(self._span(*span) for span in line)
        return text if self.unicode else text.translate(_PLAINER)

    def _span(self, text: str, style: Style) -> str:
        text = printable(text)
        return f"\033[{style.value}m{text}\033[0m" if self.colours and style and text else text


def size_of(stream: TextIO) -> tuple[int, int] | None:
    """Columns and lines of a terminal; None for what is none."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return None
    return size.columns or 80, size.lines or 24


def columns_of(stream: TextIO) -> int:
    """How wide to write: as the terminal is, as COLUMNS says, or as a page is."""
    if (size := size_of(stream)) is not None:
        return size[0]
    told = os.environ.get("COLUMNS", "")
    return max(20, int(told)) if told.isdecimal() else _PAPER_COLUMNS


def width_of(text: str) -> int:
    """How many cells the text takes as it is printed."""
    return sum(_cells(letter) for letter in printable(text))


def _cells(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, most: int) -> str:
    """The text as it is printed, in at most so many cells; what was cut shows."""
    text = printable(text)
    if width_of(text) <= most:
        return text
    kept, used = "", 1
    for letter in text:
        used += _cells(letter)
        if used > most:
            break
        kept += letter
    return (kept + "…") if most > 0 else ""


def padded(text: str, cells: int, right: bool = False) -> str:
    """The text in exactly so many cells."""
    text = cut(text, cells)
    gap = " " * (cells - width_of(text))
    return gap + text if right else text + gap


def fitted(line: Line, width: int) -> Line:
    """The line in at most so many cells."""
    spans: list[Span] = []
    left = width
    for text, style in line:
        whole = printable(text)
        part = cut(whole, left)
        spans.append((part, style))
        left -= width_of(part)
        if part != whole:
            break
    return tuple(spans)


def bar(fraction: float, cells: int) -> str:
    """A progress bar."""
    full = round(max(0.0, min(1.0, fraction)) * cells)
    return "█" * full + "░" * (cells - full)


def blocks(percents: Sequence[float | None]) -> str:
    """A cell for each, as high as it is; blank where it is not known."""
    return "".join(" " if each is None else _block(each) for each in percents)


def _block(percent: float) -> str:
    return _BLOCKS[min(len(_BLOCKS) - 1, int(max(0.0, percent) / 100 * len(_BLOCKS)))]


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most so many cells, broken between words."""
    lines = [""]
    for word in printable(text).split():
        longer = f"{lines[-1]} {word}".strip()
        if width_of(longer) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: those with the lowest `keep` go first when it is too wide.

    `least`: a column that may be cut is cut to no less than this many cells; 0 means never cut.
    """

    head: str
    keep: int
    right: bool = False
    least: int = 0


def columns(
    heads: Sequence[Column], rows: Sequence[Sequence[Span]], width: int, indent: int = 2
) -> list[Line]:
    """A table that fits: the head, then the rows."""
    natural = [
        max(width_of(head.head), *(width_of(row[place][0]) for row in rows), 1)
        for place, head in enumerate(heads)
    ]
    shown = [place for place in range(len(heads)) if heads[place].keep]
    while True:
        sizes = _sizes(heads, natural, shown, width - indent)
        if sizes is not None or len(shown) == 1:
            break
        shown.remove(min(shown, key=lambda place: heads[place].keep))
    sizes = sizes or [width - indent]
    head = tuple((heads[place].head, Style.FAINT) for place in shown)
    lines = [head, *(tuple(row[place] for place in shown) for row in rows)]
    rights = [heads[place].right for place in shown]
    return [_row(line, sizes, rights, indent) for line in lines]


def _sizes(
    heads: Sequence[Column], natural: list[int], shown: list[int], width: int
) -> list[int] | None:
    """How wide each column may be, or None if even the least is too much."""
    sizes = [natural[place] for place in shown]
    over = sum(sizes) + 2 * (len(sizes) - 1) - width
    for at, place in reversed(list(enumerate(shown))):
        if over > 0 and heads[place].least:
            given = min(over, max(0, sizes[at] - heads[place].least))
            sizes[at] -= given
            over -= given
    return sizes if over <= 0 else None


def _row(spans: Line, sizes: list[int], rights: list[bool], indent: int) -> Line:
    row: list[Span] = [(" " * indent, Style.PLAIN)]
    for at, ((text, style), size, right) in enumerate(zip(spans, sizes, rights, strict=True)):
        last = at == len(sizes) - 1 and not right
        row.append((cut(text, size) if last else padded(text, size, right), style))
        if not last:
            row.append(("  ", Style.PLAIN))
    return tuple(row)
