"""A picture as it comes out on paper, or on a screen of so many lines."""

import io
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.screen import Screen


def drawn(
    parts: Sequence[RenderableType], width: int, height: int | None = None, colours: bool = False
) -> list[str]:
    """The lines; with a height, as a screen of that size shows them."""
    paper = io.StringIO()
    console = Console(
        file=paper,
        width=width,
        height=height or 1000,
        color_system="standard" if colours else None,
        force_terminal=colours,
        legacy_windows=False,
    )
    console.print(Group(*parts) if height is None else Screen(*parts))
    lines = paper.getvalue().removesuffix("\n").split("\n")
    assert colours or max(map(cell_len, lines)) <= width
    return [line.rstrip() for line in lines]
