"""What commands print: tables for people, JSON for programs."""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from limpet.domain.duration import spoken


def say(text: str) -> None:
    """Print a line; text that the terminal cannot show is replaced, not raised."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


def say_json(value: Any) -> None:
    """Print JSON."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under a head, numbers to the right."""
    texts = [[_cell(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
    numeric = [
        bool(rows) and all(isinstance(row[place], int) for row in rows)
        for place in range(len(head))
    ]
    for line in [list(head), *texts]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        say("  ".join(cells).rstrip())


def _cell(value: object) -> str:
    # A line break in a note or an error would tear the table.
    return "-" if value is None else " ".join(str(value).split())


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
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
