"""What the streams of a command can show: colours, how many columns, which letters."""

import codecs
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

# Columns of a file or a pipe, where no line is cut and none is wrapped; and lines.
_ENDLESS = 1 << 24
# What stands for a letter that the encoding of a stream has not.
_PLAINER = {
    **dict(zip("▁▂▃▄▅▆▇█", "_.,:-=+#", strict=True)),
    **{"━": "=", "╸": "-", "╺": "-", "─": "-", "░": "-", "…": "~", "✓": "+", "✗": "x", "·": "-"},
    "●": "*",
}
_PLAINLY = "limpet-plainly"


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether somebody looks at a stream, by default the output, on a screen with a cursor."""
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def is_coloured(stream: TextIO | None = None) -> bool:
    """Whether a stream shows colours, and nobody asked for none (https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def size_of(stream: TextIO) -> tuple[int, int] | None:
    """Columns and lines of a terminal; None for what is none."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return None
    return size.columns or 80, size.lines or 24


def columns() -> int | None:
    """How wide a picture may be: as the terminal, or as COLUMNS says; else as wide as it likes."""
    if (size := size_of(sys.stdout)) is not None:
        return size[0]
    wanted = os.environ.get("COLUMNS", "")
    return max(20, int(wanted)) if wanted.isdecimal() else None


def console(width: int | None = None, file: TextIO | None = None) -> "Console":
    """What lays out a picture for the output as it is, and writes it to `file`.

    Without a width it is as wide as the terminal, and elsewhere as wide as it likes.
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
    """From now on a letter that a stream cannot show is replaced, not raised."""
    codecs.register_error(_PLAINLY, _plainly)
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors=_PLAINLY)


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    return "".join(_PLAINER.get(letter, "?") for letter in part), error.end
