"""The plot of a run: bars of jobs a second, drain and bulk enqueue, one panel for each store."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

import client_enqueue
import lineup
import worker_drain
from contender import Contender
from figures import Figures, shown
from limpet_contender import Limpet
from peers.catalog import ON_POSTGRES, ON_REDIS, ON_SQLITE

WIDTH = 1_000
PANEL = WIDTH // 2
NAMES_END = 215
FULL_BAR = 205
BAR, GAP = 16, 6
HEAD = 40
OURS, THEIRS, INK, PAPER = "#0b7285", "#adb5bd", "#212529", "#ffffff"
PEERS = {"Redis": ON_REDIS, "PostgreSQL": ON_POSTGRES, "SQLite": ON_SQLITE}


@dataclass(frozen=True)
class Bar:
    """One row of a panel."""

    name: str
    rate: float
    is_ours: bool


def drawn(figures: Figures) -> str:
    """The picture as SVG: a row of panels for each store, drain on the left, bulk on the right."""
    parts: list[str] = []
    top = 10
    for engine, peers in PEERS.items():
        limpets = [each for each in lineup.LIMPETS if each.engine.scheme == _scheme(engine)]
        left = _bars(figures, [*limpets, *peers], worker_drain.RATE)
        one = [lineup.limpet(engine)]
        right = _bars(figures, [*one, *peers], client_enqueue.BULK)
        parts += _panel(0, top, f"{engine}: drain by one worker, jobs/s", left)
        parts += _panel(PANEL, top, f"{engine}: bulk enqueue, jobs/s", right)
        top += HEAD + max(len(left), len(right), 1) * (BAR + GAP) + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
        f'height="{top}" font-family="sans-serif" font-size="12" fill="{INK}">'
        f'<rect width="{WIDTH}" height="{top}" fill="{PAPER}"/>' + "".join(parts) + "</svg>\n"
    )


def _scheme(engine: str) -> str:
    return lineup.limpet(engine).engine.scheme


def _bars(figures: Figures, contenders: Sequence[Contender], what: str) -> list[Bar]:
    """The bars of a panel, the fastest first."""
    bars = [
        Bar(_short(each, what), median(row.values()), isinstance(each, Limpet))
        for each in contenders
        if (row := figures.of(each.name, what))
    ]
    return sorted(bars, key=lambda bar: -bar.rate)


def _short(contender: Contender, what: str) -> str:
    """The name without the store, which the panel names; Limpet's rows keep what differs."""
    if not isinstance(contender, Limpet):
        return contender.name.partition(" on ")[0]
    if what != worker_drain.RATE:
        return "Limpet"
    setting = contender.engine.name.partition(", ")[2]
    return ", ".join(filter(None, ["Limpet", contender.kind, setting]))


def _panel(left: int, top: int, title: str, bars: list[Bar]) -> list[str]:
    lines = [
        f'<text x="{left + 12}" y="{top + 20}" font-size="14" font-weight="bold">'
        f"{escape(title)}</text>"
    ]
    most = max((bar.rate for bar in bars), default=1)
    for number, bar in enumerate(bars):
        y = top + HEAD + number * (BAR + GAP)
        length = max(1, bar.rate / most * FULL_BAR)
        weight = ' font-weight="bold"' if bar.is_ours else ""
        lines += [
            f'<text x="{left + NAMES_END - 8}" y="{y + 12}" text-anchor="end"{weight}>'
            f"{escape(bar.name)}</text>",
            f'<rect x="{left + NAMES_END}" y="{y}" width="{length:.1f}" height="{BAR}" '
            f'fill="{OURS if bar.is_ours else THEIRS}"/>',
            f'<text x="{left + NAMES_END + length + 6:.1f}" y="{y + 12}">{shown(bar.rate)}</text>',
        ]
    return lines
