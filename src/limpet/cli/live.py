"""Lines that scroll, and below them a few lines that are drawn again and again."""

import contextlib
import sys
from collections.abc import Sequence
from types import TracebackType

from rich.console import Group, RenderableType
from rich.live import Live as Drawing
from rich.text import Text

from limpet.cli.output import show
from limpet.cli.terminal import columns, console, is_terminal, size_of

# Width where the output has none.
_PAPER_COLUMNS = 100


class Live:
    """Standard output: `write` adds a line that stays, `show` replaces the lines below.

    Where the output is not a terminal, only `write` prints; `quiet` prints nothing at all.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self.is_terminal = is_terminal() and not quiet
        self._drawing = Drawing(
            console=console(), auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )

    def __enter__(self) -> "Live":
        if self.is_terminal:
            self._drawing.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The lines that were shown last stay, as if they had been written.
        if self.is_terminal:
            with contextlib.suppress(OSError):
                self._drawing.stop()

    @property
    def width(self) -> int:
        """Columns."""
        return columns() or _PAPER_COLUMNS

    @property
    def _size(self) -> tuple[int, int]:
        return size_of(sys.stdout) or (_PAPER_COLUMNS, 24)

    def write(self, line: Text) -> None:
        """Print a line that stays."""
        if self._quiet:
            return
        if not self.is_terminal:
            show(line)
            sys.stdout.flush()
            return
        self._drawing.console.size = self._size
        self._drawing.console.print(Group(line))

    def show(self, parts: Sequence[RenderableType]) -> None:
        """Replace the lines below those that stay."""
        if self.is_terminal:
            self._drawing.console.size = self._size
            self._drawing.update(Group(*parts), refresh=True)
