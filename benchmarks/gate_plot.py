"""The plot of gate.py: memory and running jobs over time, one panel for each way."""

from collections.abc import Sequence
from typing import Protocol

WIDTH, PANEL, LEFT, RIGHT = 1_000, 230, 70, 60
TOP, BOTTOM = 40, 35
MEMORY, JOBS, LIMIT, INK, PAPER = "#0b7285", "#e8590c", "#c92a2a", "#212529", "#ffffff"


class Drawable(Protocol):
    """The figures of a run that are drawn."""

    seconds: float
    jobs: int
    succeeded: int
    killed: int
    attempts: int
    memory: list[tuple[float, int]]
    running: list[tuple[float, int]]


def drawn(panels: Sequence[tuple[str, Drawable]], limit: int) -> str:
    """The picture as SVG, all panels on one scale."""
    longest = max(run.seconds for _, run in panels)
    most = max(number for _, run in panels for _, number in run.running)
    height = PANEL * len(panels) + 10
    parts = [
        part
        for place, (name, run) in enumerate(panels)
        for part in _panel(name, run, place * PANEL, longest, most, limit)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12" fill="{INK}">'
        f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>' + "".join(parts) + "</svg>\n"
    )


def _panel(name: str, run: Drawable, top: int, longest: float, most: int, limit: int) -> list[str]:
    floor, ceiling = top + PANEL - BOTTOM, top + TOP
    full = limit * 1.1

    def across(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / longest

    def up(share: float) -> float:
        return floor - (floor - ceiling) * share

    memory = " ".join(f"{across(at):.1f},{up(size / full):.1f}" for at, size in run.memory)
    steps: list[str] = []
    before = 0
    for at, number in run.running:
        steps += [f"{across(at):.1f},{up(before / most):.1f}"]
        steps += [f"{across(at):.1f},{up(number / most):.1f}"]
        before = number
    title = (
        f"{name}: {run.seconds:.0f} s, {run.succeeded} of {run.jobs} jobs succeeded in "
        f"{run.attempts} attempts, {run.killed} processes ended for want of memory"
    )
    line = up(limit / full)
    parts = [
        f'<text x="{LEFT}" y="{top + 24}" font-size="13" font-weight="bold">{title}</text>',
        f'<line x1="{LEFT}" y1="{floor}" x2="{WIDTH - RIGHT}" y2="{floor}" stroke="{INK}"/>',
        f'<line x1="{LEFT}" y1="{line:.1f}" x2="{WIDTH - RIGHT}" y2="{line:.1f}" stroke="{LIMIT}" '
        f'stroke-dasharray="6 4"/>',
        f'<text x="{LEFT - 6}" y="{line + 4:.1f}" text-anchor="end" fill="{LIMIT}">'
        f"{limit / 1e9:g} GB</text>",
        f'<text x="{LEFT - 6}" y="{ceiling - 10}" text-anchor="end" fill="{MEMORY}">memory</text>',
        f'<text x="{WIDTH - RIGHT + 6}" y="{ceiling - 10}" fill="{JOBS}">jobs</text>',
        f'<polyline points="{memory}" fill="none" stroke="{MEMORY}" stroke-width="2"/>',
        f'<polyline points="{" ".join(steps)}" fill="none" stroke="{JOBS}" stroke-width="2"/>',
    ]
    for number in range(0, most + 1, 2):
        parts.append(
            f'<text x="{WIDTH - RIGHT + 6}" y="{up(number / most) + 4:.1f}" fill="{JOBS}">'
            f"{number}</text>"
        )
    tick = 5 if longest <= 60 else 20
    for seconds in range(0, int(longest) + 1, tick):
        parts.append(
            f'<text x="{across(seconds):.1f}" y="{floor + 16}" text-anchor="middle">'
            f"{seconds} s</text>"
        )
    return parts
