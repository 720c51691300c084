"""Lines that scroll, with a few below them that are drawn again and again."""

import contextlib
import os
import sys
from collections.abc import Sequence
from types import TracebackType

from limpet.cli.style import Line, Palette, columns_of, fitted, size_of


class Live:
    """Standard output: `write` adds a line for good, `show` replaces what is below.

    On what is no terminal only `write` says anything; `quiet` says nothing at all.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._palette = Palette.of(sys.stdout)
        dumb = os.environ.get("TERM", "dumb") == "dumb"
        self.is_terminal = sys.stdout.isatty() and not dumb and not quiet
        self._below: list[str] = []

    def __enter__(self) -> "Live":
        if self.is_terminal:
            self._print("\033[?25l")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What was shown last stays, as the last lines that were written.
        self._below = []
        if self.is_terminal:
            with contextlib.suppress(OSError):
                self._print("\033[?25h")

    @property
    def width(self) -> int:
        """Columns."""
        return columns_of(sys.stdout)

    def write(self, line: Line) -> None:
        """A line that stays."""
        if self._quiet:
            return
        text = self._palette.paint(line).rstrip()
        self._print(self._up() + text + self._end + "".join(self._below))

    def show(self, lines: Sequence[Line]) -> None:
        """What is so now; fits the terminal."""
        if not self.is_terminal:
            return
        width, height = size_of(sys.stdout) or (80, 24)
        above = self._up()
        painted = [self._palette.paint(fitted(line, width - 1)) for line in lines]
        self._below = [text + self._end for text in painted[: max(0, height - 2)]]
        self._print(above + "".join(self._below))

    @property
    def _end(self) -> str:
        return "\033[K\n" if self.is_terminal else "\n"

    def _up(self) -> str:
        """Back to the first of the lines that are replaced."""
        return f"\033[{len(self._below)}A\r\033[J" if self._below else ""

    @staticmethod
    def _print(text: str) -> None:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
