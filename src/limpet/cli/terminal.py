"""What the streams of a command can show: colours, columns, letters."""

import codecs
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

# Columns and lines of a file or a pipe, where no line is cut or wrapped.
_ENDLESS = 1 << 24
# Replacements for letters that the encoding of a stream does not have.
_PLAINER = {
    **dict(zip("▁▂▃▄▅▆▇█", "_.,:-=+#", strict=True)),
    **{"━": "=", "╸": "-", "╺": "-", "─": "-", "░": "-", "…": "~", "✓": "+", "✗": "x", "·": "-"},
    "●": "*",
}
_PLAINLY = "limpet-plainly"


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a stream, by default standard output, is a terminal with a cursor."""
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def is_coloured(stream: TextIO | None = None) -> bool:
    """Whether a stream shows colours, and NO_COLOR is not set (https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def size_of(stream: TextIO) -> tuple[int, int] | None:
    """Columns and lines of a terminal; None for any other stream."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return None
    return size.columns or 80, size.lines or 24


def columns() -> int | None:
    """How wide a picture may be: the terminal's width, else COLUMNS, else None: no limit."""
    if (size := size_of(sys.stdout)) is not None:
        return size[0]
    wanted = os.environ.get("COLUMNS", "")
    return max(20, int(wanted)) if wanted.isdecimal() else None


def console(width: int | None = None, file: TextIO | None = None) -> "Console":
    """A console that lays out a picture for standard output, and writes it to `file`.

    Without a width it is as wide as the terminal; without a terminal it has no limit.
    """
    from rich.console import Console

    terminal = size_of(sys.stdout)
    return Console(
        file=file or sys.stdout,
        width=width or (_ENDLESS if terminal is None else terminal[0]),
        height=_ENDLESS,
        force_terminal=is_terminal(),
        color_system="auto" if is_coloured() else None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )


def print_in_any_encoding() -> None:
    """Replace letters that a stream cannot show, instead of raising, from now on."""
    codecs.register_error(_PLAINLY, _plainly)
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors=_PLAINLY)


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    return "".join(_PLAINER.get(letter, "?") for letter in part), error.end
