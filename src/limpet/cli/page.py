"""The options of a list that is printed page by page."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

_MOST = 1000


def _count(text: Any) -> int:
    number = int(text) if str(text).isdecimal() else 0
    if not 1 <= number <= _MOST:
        raise typer.BadParameter(f"write a number from 1 to {_MOST}")
    return number


@dataclass(frozen=True, slots=True)
class Paging:
    """Where a page begins, and how many jobs it has."""

    limit: Annotated[int, typer.Option("--limit", metavar="N", parser=_count, help="how many")] = 50
    cursor: Annotated[
        str | None,
        typer.Option("--cursor", metavar="CURSOR", help="go on where the last page ended"),
    ] = None
