"""What commands print: tables for people, JSON for programs."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TextIO

from limpet.cli.style import Line, Palette, Style, padded, width_of
from limpet.domain.duration import spoken
from limpet.domain.printable import MARK, printable, printable_json, printable_lines
from limpet.host.streams import discard
from limpet.ops.record import plain


class CannotPrint(Exception):
    """Standard output cannot be written; `error` says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def say(what: str | Line) -> None:
    """Print one line to standard output; what a terminal would obey in its texts is written out.

    The only way from a command to there, beside `say_block`, `say_json` and the live views.
    """
    _print(_painted(sys.stdout, what).rstrip())


def say_block(head: str, text: object) -> None:
    """Print a text of several lines: the first after the head, the others behind a mark each."""
    first, *rest = printable_lines(text)
    say(head + first)
    for line in rest:
        say(MARK + line)


def say_json(value: Any, *, indent: int | None = 2) -> None:
    """Print an answer, or plain data, as JSON, which no terminal obeys either."""
    _print(_encodable(printable_json(plain(value), indent), sys.stdout))


def complain(text: object) -> None:
    """Print one sentence to standard error, as an error of the command."""
    note(f"limpet: {text}")


def note(text: str, end: str = "\n") -> None:
    """Print one line to standard error, beside what the command prints."""
    try:
        print(_painted(sys.stderr, text), end=end, file=sys.stderr, flush=True)
    except OSError:
        discard("stderr")  # nobody reads it, or it cannot be written: there is nowhere to say so


def _print(text: str) -> None:
    try:
        print(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotPrint(error) from error


def _painted(stream: TextIO, what: str | Line) -> str:
    line: Line = ((what, Style.PLAIN),) if isinstance(what, str) else what
    return _encodable(Palette.of(stream).paint(line), stream)


def _encodable(text: str, stream: TextIO) -> str:
    """What the stream cannot show is replaced, not raised."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under a head, numbers to the right."""
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(head, *texts, strict=True)]
    numeric = [
        bool(rows) and all(isinstance(row[place], int) for row in rows)
        for place in range(len(head))
    ]
    for line in [list(head), *texts]:
        cells = [
            padded(cell, width, right)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        say("  ".join(cells).rstrip())


def ago(iso: str | None) -> str | None:
    """A time as a person says it: "3m 20s ago", "in 10m"."""
    if iso is None:
        return None
    gap = datetime.now(UTC) - datetime.fromisoformat(iso)
    if gap < timedelta(0):
        return f"in {spoken(timedelta(seconds=round(-gap.total_seconds())))}"
    if gap < timedelta(seconds=1):
        return "now"
    return f"{spoken(timedelta(seconds=round(gap.total_seconds())))} ago"


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters, as it is printed."""
    text = printable(text)
    return text if len(text) <= most else text[: most - 1] + "…"
