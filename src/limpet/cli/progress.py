"""The progress of a long command, on standard error."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from limpet.cli.output import note
from limpet.cli.terminal import is_coloured, is_terminal

if TYPE_CHECKING:  # rich is loaded where there is a bar to draw, and not before
    from rich.progress import Progress as Bar

_LINE_SECONDS = 1.0
_BAR_SECONDS = 0.1


class ProgressLine:
    """A bar where standard error is a terminal, else a line once a second.

    `at_once`: print the first line without waiting for a second to pass.
    """

    def __init__(self, *, quiet: bool = False, at_once: bool = False) -> None:
        self._quiet = quiet
        self._next = time.monotonic() + (0 if at_once else _LINE_SECONDS)
        self._bar: Bar | None = None

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, words: str, done: int = 0, total: int = 0) -> None:
        """Show how much is done; `total`: of how much, 0 where that is unknown."""
        if self._quiet or time.monotonic() < self._next:
            return
        if total and is_terminal(sys.stderr):
            self._next = time.monotonic() + _BAR_SECONDS
            self._draw(done, total)
        else:
            self._next = time.monotonic() + _LINE_SECONDS
            note(words)

    def _draw(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = _new_bar()
            self._bar.add_task("", total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, refresh=True)


def _new_bar() -> "Bar":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, color_system="auto" if is_coloured(sys.stderr) else None)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Bar(
        *columns,
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
