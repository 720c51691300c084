"""What is shown of one host: its numbers, its past as lines of blocks, who is there; no I/O."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import UNSET

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
from limpet.ops.host_answer import (
    ExecutorAnswer,
    HostAnswer,
    MeasuredHost,
    PermitAnswer,
    SampleAnswer,
)

_INDENT = 12
# For so long samples of seconds, and of minutes, are kept, and how long each is.
_SPANS = (
    ("last 15m", timedelta(minutes=15), timedelta(seconds=1)),
    ("last 7d", timedelta(days=7), timedelta(minutes=1)),
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


def detail_lines(host: HostAnswer, width: int, now: datetime | None = None) -> list[Line]:
    """One host, as wide as that."""
    now = now or datetime.now(UTC)
    measured = host if isinstance(host, MeasuredHost) else None
    threshold = None if measured is None else measured.threshold
    lines: list[Line] = [_head(host)]
    style = Style.BAD if measured else Style.WARN
    lines += [((f"  {host.reason}", style),)] if host.reason else []
    lines += [((f"  {measured.warning}", Style.WARN),)] if measured and measured.warning else []
    lines.append(_told("CPU", cpu_span(host), *([cpu_beside(measured)] if measured else [])))
    most = None if threshold is None else threshold.cpu_percent
    lines += _past(host, lambda sample: sample.cpu_percent, most, width, now)
    lines.append(_told("memory", memory_span(host)))
    most = None if threshold is None else threshold.memory_percent
    lines += _past(host, lambda sample: sample.memory_percent, most, width, now)
    if measured:
        lines.append(_told("pressure", *pressure_spans(measured)))
        lines.append(_told("load", (_or_unknown(measured.load, "{:.2f}"), Style.PLAIN)))
        free = measured.disk_free_bytes
        disk = "unknown" if free is None else f"{spoken_size(free)} free"
        lines.append(_told("disk", (disk, Style.PLAIN)))
    reserved = host.reserved_for
    for_whom: Span = (reserved, Style.WARN) if reserved else ("nobody", Style.FAINT)
    lines.append(_told("reserved", for_whom))
    lines.append(_told("permits", permits_span(host)))
    lines += _permits(host.permits, width, now)
    if measured:
        lines += _executors(measured.executors, width)
        lines.append(_told("source", (measured.source, Style.PLAIN)))
    return [fitted(line, width) for line in lines]


def _told(name: str, *spans: Span) -> Line:
    return ((f"  {name:<{_INDENT - 2}}", Style.FAINT), *spans)


def _head(host: HostAnswer) -> Line:
    state: Span = ("ready", Style.GOOD) if host.ready else ("not ready", Style.BAD)
    if host.ready is None:
        state = ("not measured", Style.WARN)
    by = ""
    if isinstance(host, MeasuredHost):
        by = f"  measured by {host.monitor}, {age_text(host.age_seconds)} ago"
    return ((f"{host.server}: ", Style.HEAD), state, (by, Style.FAINT))


def _or_unknown(value: float | None, form: str) -> str:
    return "unknown" if value is None else form.format(value)


# -- the past


def _past(
    host: HostAnswer,
    value_of: Callable[[SampleAnswer], float | None],
    threshold: float | None,
    width: int,
    now: datetime,
) -> Iterator[Line]:
    if host.history is UNSET:
        return
    kept = (host.history.seconds, host.history.minutes)
    for samples, (head, span, step) in zip(kept, _SPANS, strict=True):
        room = min(width - _INDENT - len(_MOST), span // step // _SAMPLES_PER_CELL)
        values = [(sample.at, value_of(sample)) for sample in samples]
        cells = _cells(values, now - span, span, max(1, room))
        known = [each for each in cells if each is not None]
        if not known:
            yield _told(head, ("nothing is known", Style.FAINT))
            continue
        most = f"  most {max(known):.0f} %"
        yield _told(head, *_coloured(cells, threshold), (most, Style.FAINT))


def _cells(
    values: Sequence[tuple[str, float | None]], since: datetime, span: timedelta, count: int
) -> list[float | None]:
    """The largest value in each of so many equal parts of a span; None where none is known."""
    cells: list[float | None] = [None] * count
    for at, value in values:
        place = int((datetime.fromisoformat(at) - since) / span * count)
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


def _permits(permits: Sequence[PermitAnswer], width: int, now: datetime) -> list[Line]:
    rows: list[list[Span]] = [
        [
            (each.what, Style.PLAIN),
            (weight_text(each), Style.PLAIN),
            (_since(each.at, now), Style.PLAIN),
            (_holder(each), Style.FAINT),
        ]
        for each in permits
    ]
    return columns(_PERMITS, rows, width, indent=_INDENT) if rows else []


def _since(at: str, now: datetime) -> str:
    return spoken(
        timedelta(seconds=max(0, int((now - datetime.fromisoformat(at)).total_seconds())))
    )


def _holder(permit: PermitAnswer) -> str:
    is_caller = permit.holder == permit.session
    return f"{'caller' if is_caller else 'job'} {permit.holder}"


def _executors(executors: Sequence[ExecutorAnswer], width: int) -> list[Line]:
    busiest = sorted(executors, key=lambda each: (-each.cpu_percent, -each.memory_bytes))
    rows: list[list[Span]] = [
        [
            (each.name or "of no session here", Style.PLAIN),
            (str(each.pid), Style.FAINT),
            (f"{each.cpu_percent / 100:.2f}", Style.PLAIN),
            (spoken_size(each.memory_bytes), Style.PLAIN),
            (each.session, Style.FAINT),
        ]
        for each in busiest[:_MOST_EXECUTORS]
    ]
    cores = sum(each.cpu_percent for each in executors) / 100
    sums = f": {cores:.2f} cores, {spoken_size(sum(each.memory_bytes for each in executors))}"
    told: Span = (f"{len(executors)}{sums}", Style.PLAIN) if rows else ("0", Style.FAINT)
    lines = [_told("executors", told)]
    lines += columns(_EXECUTORS, rows, width, indent=_INDENT) if rows else []
    if (more := len(busiest) - len(rows)) > 0:
        lines.append(_told("", (f"and {more} more; --json has all of them", Style.FAINT)))
    return lines
