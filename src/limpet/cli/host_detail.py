"""The picture of one host: numbers, history as blocks, permits and executors; does no I/O."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import UNSET
from rich.console import RenderableType
from rich.text import Text

from limpet.cli.host_picture import (
    age_text,
    cpu_beside,
    cpu_share,
    labelled,
    memory_share,
    permits_text,
    pressure_text,
    state_of,
    weight_text,
)
from limpet.cli.style import Column, Row, Span, Style, blocks, line, table, text
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
# Width of the history where the output has no width.
_PAPER_COLUMNS = 100
# Per line of history: its label, its samples, how long samples are kept, how long one sample is.
_SPANS = (
    ("last 15m", "seconds", timedelta(minutes=15), timedelta(seconds=1)),
    ("last 7d", "minutes", timedelta(days=7), timedelta(minutes=1)),
)
# A cell covers at least two samples, else a sample that comes a little late leaves a gap.
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


def detail_picture(
    host: HostAnswer, width: int | None, now: datetime | None = None
) -> list[RenderableType]:
    """One host, `width` columns wide."""
    now = now or datetime.now(UTC)
    measured = host if isinstance(host, MeasuredHost) else None
    parts: list[RenderableType] = [_head(host)]
    if host.reason:
        parts.append(text(f"  {host.reason}", Style.BAD if measured else Style.WARN))
    if measured and measured.warning:
        parts.append(text(f"  {measured.warning}", Style.WARN))
    beside = [cpu_beside(measured)] if measured else []
    parts.append(labelled("CPU", cpu_share(host), *beside))
    parts += _past(host, "cpu", width, now)
    parts.append(labelled("memory", memory_share(host)))
    parts += _past(host, "memory", width, now)
    if measured:
        parts.append(labelled("pressure", pressure_text(measured)))
        load = "unknown" if measured.load is None else f"{measured.load:.2f}"
        parts.append(labelled("load", text(load)))
        free = measured.disk_free_bytes
        parts.append(
            labelled("disk", text("unknown" if free is None else f"{spoken_size(free)} free"))
        )
    reserved = host.reserved_for
    parts.append(
        labelled("reserved", text(reserved or "nobody", Style.WARN if reserved else Style.FAINT))
    )
    parts.append(labelled("permits", permits_text(host)))
    parts += _permits(host.permits, width, now)
    if measured:
        parts += _executors(measured.executors, width)
        parts.append(labelled("source", text(measured.source)))
    return parts


def _head(host: HostAnswer) -> Text:
    by = ""
    if host.monitor is not None and host.age_seconds is not None:
        by = f"  measured by {host.monitor}, {age_text(host.age_seconds)} ago"
    return line((f"{host.server}: ", Style.HEAD), state_of(host), (by, Style.FAINT))


# -- history


def _past(
    host: HostAnswer, name: Literal["cpu", "memory"], width: int | None, now: datetime
) -> Iterator[RenderableType]:
    if host.history is UNSET:
        return
    threshold = _threshold(host, name)
    for head, kept, span, step in _SPANS:
        samples = host.history.seconds if kept == "seconds" else host.history.minutes
        count = min(
            (width or _PAPER_COLUMNS) - _INDENT - len(_MOST), span // step // _SAMPLES_PER_CELL
        )
        cells = _cells(samples, name, now - span, span, max(1, count))
        known = [cell for cell in cells if cell is not None]
        if not known:
            yield labelled(head, text("no samples", Style.FAINT))
            continue
        most = (f"  most {max(known):.0f} %", Style.FAINT)
        yield labelled(head, line(*_coloured(cells, threshold), most))


def _threshold(host: HostAnswer, name: Literal["cpu", "memory"]) -> float | None:
    if not isinstance(host, MeasuredHost):
        return None
    limits = host.threshold
    return limits.cpu_percent if name == "cpu" else limits.memory_percent


def _cells(
    samples: Sequence[SampleAnswer],
    name: Literal["cpu", "memory"],
    since: datetime,
    span: timedelta,
    count: int,
) -> list[float | None]:
    """The largest value in each of `count` equal parts of a span; None without a sample."""
    cells: list[float | None] = [None] * count
    for sample in samples:
        place = int((datetime.fromisoformat(sample.at) - since) / span * count)
        value = sample.cpu_percent if name == "cpu" else sample.memory_percent
        if 0 <= place <= count and value is not None:
            place = min(place, count - 1)  # a sample of this very moment
            cells[place] = max(value, cells[place] or 0.0)
    return cells


def _coloured(cells: Sequence[float | None], threshold: float | None) -> Iterator[Span]:
    """Runs of cells of one style; cells at or above the threshold have a style of their own."""
    begin = 0
    for place in range(1, len(cells) + 1):
        over = _is_over(cells[begin], threshold)
        if place == len(cells) or _is_over(cells[place], threshold) != over:
            yield blocks(cells[begin:place]), Style.BAD if over else Style.GOOD
            begin = place


def _is_over(value: float | None, threshold: float | None) -> bool:
    return value is not None and threshold is not None and value >= threshold


# -- permits and executors


def _permits(
    permits: Sequence[PermitAnswer], width: int | None, now: datetime
) -> list[RenderableType]:
    rows: list[Row] = [
        [
            text(permit.what),
            text(weight_text(permit)),
            text(_since(permit.at, now)),
            text(_holder(permit), Style.FAINT),
        ]
        for permit in permits
    ]
    return [table(_PERMITS, rows, width, _INDENT)] if rows else []


def _since(at: str, now: datetime) -> str:
    return spoken(
        timedelta(seconds=max(0, int((now - datetime.fromisoformat(at)).total_seconds())))
    )


def _holder(permit: PermitAnswer) -> str:
    is_caller = permit.holder == permit.session
    return f"{'caller' if is_caller else 'job'} {permit.holder}"


def _executors(executors: Sequence[ExecutorAnswer], width: int | None) -> Iterator[RenderableType]:
    busiest = sorted(
        executors, key=lambda executor: (-executor.cpu_percent, -executor.memory_bytes)
    )
    rows: list[Row] = [
        [
            text(executor.name or "of no session here"),
            text(executor.pid, Style.FAINT),
            text(f"{executor.cpu_percent / 100:.2f}"),
            text(spoken_size(executor.memory_bytes)),
            text(executor.session, Style.FAINT),
        ]
        for executor in busiest[:_MOST_EXECUTORS]
    ]
    if not rows:
        yield labelled("executors", text(0, Style.FAINT))
        return
    cores = sum(executor.cpu_percent for executor in executors) / 100
    memory = spoken_size(sum(executor.memory_bytes for executor in executors))
    yield labelled("executors", text(f"{len(executors)}: {cores:.2f} cores, {memory}"))
    yield table(_EXECUTORS, rows, width, _INDENT)
    if (more := len(busiest) - len(rows)) > 0:
        yield labelled("", text(f"and {more} more; --json has all of them", Style.FAINT))
