"""What is shown of one host: its numbers, its past as lines of blocks, who is there; no I/O."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from limpet.cli.host_picture import (
    age_text,
    cpu_beside,
    cpu_span,
    memory_span,
    permits_span,
    pressure_spans,
    weight_text,
)
from limpet.cli.style import Column, Line, Span, Style, blocks, columns, fitted
from limpet.domain.duration import spoken
from limpet.domain.size import spoken_size
from limpet.ops.record import Record

_INDENT = 12
# For so long samples are kept, and how long each is.
_SPANS = (
    ("last 15m", "seconds", timedelta(minutes=15), timedelta(seconds=1)),
    ("last 7d", "minutes", timedelta(days=7), timedelta(minutes=1)),
)
# A cell has at least two samples in it, else those that come a little late leave gaps.
_SAMPLES_PER_CELL = 2
_MOST_EXECUTORS = 10
_MOST = "  most 100 %"

_PERMITS = (
    Column("WHAT", 5, least=8),
    Column("TAKES", 4),
    Column("SINCE", 3, right=True),
    Column("HOLDER", 2, least=8),
)
_EXECUTORS = (
    Column("OF", 4, least=8),
    Column("PID", 2, right=True),
    Column("CORES", 5, right=True),
    Column("MEMORY", 3, right=True),
    Column("SESSION", 1),
)


def detail_lines(host: Record, width: int, now: datetime | None = None) -> list[Line]:
    """One host, as wide as that."""
    now = now or datetime.now(UTC)
    measured = host["ready"] is not None
    lines: list[Line] = [_head(host)]
    style = Style.BAD if measured else Style.WARN
    lines += [((f"  {host['reason']}", style),)] if host["reason"] else []
    lines += [((f"  {host['warning']}", Style.WARN),)] if host.get("warning") else []
    lines.append(_told("CPU", cpu_span(host), *([cpu_beside(host)] if measured else [])))
    lines += _past(host, "cpu", width, now)
    lines.append(_told("memory", memory_span(host)))
    lines += _past(host, "memory", width, now)
    if measured:
        lines.append(_told("pressure", *pressure_spans(host)))
        lines.append(_told("load", (_or_unknown(host["load"], "{:.2f}"), Style.PLAIN)))
        disk = "unknown" if host["disk_free"] is None else f"{spoken_size(host['disk_free'])} free"
        lines.append(_told("disk", (disk, Style.PLAIN)))
    reserved = host["reserved_for"]
    for_whom: Span = (reserved, Style.WARN) if reserved else ("nobody", Style.FAINT)
    lines.append(_told("reserved", for_whom))
    lines.append(_told("permits", permits_span(host)))
    lines += _permits(host["permits"], width, now)
    if measured:
        lines += _executors(host["executors"], width)
        lines.append(_told("source", (host["source"], Style.PLAIN)))
    return [fitted(line, width) for line in lines]


def _told(name: str, *spans: Span) -> Line:
    return ((f"  {name:<{_INDENT - 2}}", Style.FAINT), *spans)


def _head(host: Record) -> Line:
    state: Span = ("ready", Style.GOOD) if host["ready"] else ("not ready", Style.BAD)
    if host["ready"] is None:
        state = ("not measured", Style.WARN)
    by = ""
    if host["monitor"] is not None:
        by = f"  measured by {host['monitor']}, {age_text(host['age_seconds'])} ago"
    return ((f"{host['server']}: ", Style.HEAD), state, (by, Style.FAINT))


def _or_unknown(value: float | None, form: str) -> str:
    return "unknown" if value is None else form.format(value)


# -- the past


def _past(host: Record, name: str, width: int, now: datetime) -> Iterator[Line]:
    threshold = (host.get("threshold") or {}).get(name)
    for head, kept, span, step in _SPANS:
        room = min(width - _INDENT - len(_MOST), span // step // _SAMPLES_PER_CELL)
        cells = _cells(host["history"][kept], name, now - span, span, max(1, room))
        known = [each for each in cells if each is not None]
        if not known:
            yield _told(head, ("nothing is known", Style.FAINT))
            continue
        most = f"  most {max(known):.0f} %"
        yield _told(head, *_coloured(cells, threshold), (most, Style.FAINT))


def _cells(
    samples: Sequence[Record], name: str, since: datetime, span: timedelta, count: int
) -> list[float | None]:
    """The largest value in each of so many equal parts of a span; None where none is known."""
    cells: list[float | None] = [None] * count
    for each in samples:
        place = int((datetime.fromisoformat(each["at"]) - since) / span * count)
        value = each[name]
        if 0 <= place <= count and value is not None:
            place = min(place, count - 1)  # of this very moment
            cells[place] = max(value, cells[place] or 0.0)
    return cells


def _coloured(cells: Sequence[float | None], threshold: float | None) -> Iterator[Span]:
    """Runs of cells of one style: those at the threshold show."""
    begin = 0
    for place in range(1, len(cells) + 1):
        over = _is_over(cells[begin], threshold)
        if place == len(cells) or _is_over(cells[place], threshold) != over:
            yield blocks(cells[begin:place]), Style.BAD if over else Style.GOOD
            begin = place


def _is_over(value: float | None, threshold: float | None) -> bool:
    return value is not None and threshold is not None and value >= threshold


# -- who is there


def _permits(permits: Sequence[Record], width: int, now: datetime) -> list[Line]:
    rows: list[list[Span]] = [
        [
            (each["what"], Style.PLAIN),
            (weight_text(each), Style.PLAIN),
            (_since(each["at"], now), Style.PLAIN),
            (_holder(each), Style.FAINT),
        ]
        for each in permits
    ]
    return columns(_PERMITS, rows, width, indent=_INDENT) if rows else []


def _since(at: str, now: datetime) -> str:
    return spoken(
        timedelta(seconds=max(0, int((now - datetime.fromisoformat(at)).total_seconds())))
    )


def _holder(permit: Record) -> str:
    is_caller = permit["holder"] == permit["session"]
    return f"{'caller' if is_caller else 'job'} {permit['holder']}"


def _executors(executors: Sequence[Record], width: int) -> list[Line]:
    busiest = sorted(executors, key=lambda each: (-each["cpu"], -each["memory"]))
    rows: list[list[Span]] = [
        [
            (each["name"] or "of no session here", Style.PLAIN),
            (str(each["pid"]), Style.FAINT),
            (f"{each['cpu'] / 100:.2f}", Style.PLAIN),
            (spoken_size(each["memory"]), Style.PLAIN),
            (each["session"], Style.FAINT),
        ]
        for each in busiest[:_MOST_EXECUTORS]
    ]
    cores = sum(each["cpu"] for each in executors) / 100
    sums = f": {cores:.2f} cores, {spoken_size(sum(each['memory'] for each in executors))}"
    told: Span = (f"{len(executors)}{sums}", Style.PLAIN) if rows else ("0", Style.FAINT)
    lines = [_told("executors", told)]
    lines += columns(_EXECUTORS, rows, width, indent=_INDENT) if rows else []
    if (more := len(busiest) - len(rows)) > 0:
        lines.append(_told("", (f"and {more} more; --json has all of them", Style.FAINT)))
    return lines
