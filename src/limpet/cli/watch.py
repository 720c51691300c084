"""Draws a picture again and again, until the person quits."""

import time
from collections.abc import Callable

from rich.console import RenderableType
from rich.layout import Layout

from limpet.cli.screen import STOP, Screen
from limpet.cli.style import Style, text
from limpet.domain.errors import HostNotFound, StoreError

_KEYS_THAT_QUIT = ("q", "Q", "\x1b", "\x03", "\x04")


def watch(
    look: Callable[[], None],
    picture: Callable[[int, int, str | None], RenderableType],
    every_seconds: float,
) -> None:
    """Look and draw; `picture` gets width, height, and why the last look failed, if it did."""
    trouble: str | None = None
    next_look = time.monotonic() + every_seconds
    with Screen() as screen:
        while True:
            width, height = screen.size
            screen.draw(_page(picture(width, height - 1, trouble), every_seconds))
            happened = screen.wait(next_look - time.monotonic())
            if happened == STOP or happened in _KEYS_THAT_QUIT:
                return
            if happened is not None:
                continue  # a new size, or a key without a meaning
            next_look = time.monotonic() + every_seconds
            try:
                look()
                trouble = None
            except (StoreError, HostNotFound) as error:
                trouble = str(error)


def _page(picture: RenderableType, every_seconds: float) -> RenderableType:
    """The picture, with a foot on the last line of the screen."""
    page = Layout()
    foot = text(f"q quits · looks every {every_seconds:g} s", Style.FAINT)
    page.split_column(Layout(picture), Layout(foot, size=1))
    return page
