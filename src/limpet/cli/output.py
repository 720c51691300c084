"""What commands print: lines and tables for people, JSON for programs."""

import io
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from limpet.cli.terminal import columns, console, is_terminal
from limpet.domain.duration import spoken
from limpet.domain.printable import printable, printable_json
from limpet.host.streams import discard

if TYPE_CHECKING:  # rich is loaded by what shows a picture, and by nothing else
    from rich.console import RenderableType

    from limpet.cli.style import Column, Row


class CannotPrint(Exception):
    """Standard output cannot be written; `error` says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def print_line(text: str) -> None:
    """Print one line to standard output; characters that a terminal would obey are escaped.

    Commands print only with this, `print_json`, `show` and the live views.
    """
    _print(printable(text).rstrip())


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print an answer, or plain data, as JSON; characters that a terminal obeys are escaped."""
    from limpet.ops.record import plain

    _print(printable_json(plain(value), indent))


def show(*parts: "RenderableType", width: int | None = None) -> None:
    """Print a picture; its texts come from `limpet.cli.style`, which escapes them.

    Without a width it is as wide as the terminal; without a terminal no line is cut or wrapped.
    """
    from rich.console import Group

    paper = io.StringIO()
    console(width, paper).print(Group(*parts))  # a text outside of a group would not be cut
    for line in paper.getvalue().removesuffix("\n").split("\n"):
        _print(line if is_terminal() else line.rstrip())


def show_table(heads: Sequence["Column"], rows: Sequence["Row"], indent: int = 0) -> None:
    """Print a table: as wide as the terminal, elsewhere as wide as its texts."""
    from limpet.cli.style import left_out, table

    width = columns() if sys.stdout.isatty() else None
    show(table(heads, rows, width, indent), *left_out(heads, rows, width, indent))


def complain(text: object) -> None:
    """Print one sentence to standard error, as an error of the command."""
    note(f"limpet: {text}")


def note(text: str, end: str = "\n") -> None:
    """Print one line to standard error, beside what the command prints."""
    try:
        print(printable(text), end=end, file=sys.stderr, flush=True)
    except OSError:
        discard("stderr")  # nobody reads it, or it cannot be written: no place is left to report it


def _print(text: str) -> None:
    try:
        print(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotPrint(error) from error


def ago(iso: str | None) -> str | None:
    """A time in words: "3m 20s ago", "in 10m"."""
    if iso is None:
        return None
    gap = datetime.now(UTC) - datetime.fromisoformat(iso)
    if gap < timedelta(0):
        return f"in {spoken(timedelta(seconds=round(-gap.total_seconds())))}"
    if gap < timedelta(seconds=1):
        return "now"
    return f"{spoken(timedelta(seconds=round(gap.total_seconds())))} ago"


def shortened(text: str, most: int) -> str:
    """A text of at most `most` characters, as it is printed."""
    text = printable(text)
    return text if len(text) <= most else text[: most - 1] + "…"
