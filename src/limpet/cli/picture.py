"""The picture that `limpet top` draws of an overview; knows widths and heights, does no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from limpet.cli.remark import queue_remark
from limpet.cli.style import (
    Column,
    Line,
    Span,
    Style,
    bar,
    columns,
    cut,
    fitted,
    width_of,
)
from limpet.domain.duration import spoken
from limpet.ops.job_answer import ProgressAnswer
from limpet.ops.overview import Overview, QueueTotals, RunningJob

_BAR_CELLS = 16
_STATES = {"live": Style.GOOD, "draining": Style.WARN, "overdue": Style.BAD}
_BAD_EVENTS = {"failed", "lease_lost", "quarantined"}

_WORKERS = (
    Column("NAME", 9, least=8),
    Column("HOST", 3, least=8),
    Column("STATE", 8),
    Column("HOLDS", 7, right=True),
    Column("LAST HEARD", 6, right=True),
    Column("LEASE", 4, right=True),
    Column("PID", 2, right=True),
)
_QUEUES = (
    Column("QUEUE", 11, least=8),
    Column("READY", 10, right=True),
    Column("SCHEDULED", 6, right=True),
    Column("RUNNING", 9, right=True),
    Column("BLOCKED", 5, right=True),
    Column("FAILED", 8, right=True),
    Column("DONE/S", 7, right=True),
    Column("ORPHANED", 4, right=True),
    Column("REMARK", 3, least=10),
)
_RUNNING = (
    Column("TASK", 9, least=8),
    Column("ID", 1),
    Column("WORKER", 5, least=6),
    Column("TRY", 4, right=True),
    Column("FOR", 6, right=True),
    Column("PROGRESS", 8),
    Column("NOTE", 7, least=8),
)
_EVENTS = (
    Column("WHEN", 4, right=True),
    Column("EVENT", 5),
    Column("TASK", 6, least=8),
    Column("JOB", 1),
    Column("WHY", 3, least=12),
)


@dataclass
class _Section:
    """`least`: how many lines are kept when the terminal is low."""

    title: Line
    lines: list[Line]
    least: int

    def height(self, gap: int) -> int:
        return len(self.lines) + 1 + gap if self.lines else 0


def picture(
    seen: Overview,
    rates: Mapping[str, float] | None,
    width: int,
    height: int | None = None,
    trouble: str | None = None,
) -> list[Line]:
    """The lines of one look at the store; `trouble` is why it is an old one."""
    now = datetime.fromisoformat(seen.at)
    head = _head(seen, width, now, trouble)
    sections = [
        _workers(seen, width),
        _queues(seen, rates, width),
        _running(seen, width),
        _events(seen, width, now),
    ]
    gap = 1 if height is None else _fit(sections, height - len(head))
    lines = list(head)
    for section in sections:
        if section.lines:
            lines += [*[()] * gap, section.title, *section.lines]
    return [fitted(line, width) for line in lines][:height]


def _head(seen: Overview, width: int, now: datetime, trouble: str | None) -> tuple[Line, Line]:
    clock = now.astimezone().strftime("%H:%M:%S")
    name = "limpet top  "
    url = cut(seen.store.url, max(0, width - len(name) - len(clock) - 2))
    gap = " " * max(2, width - len(name) - width_of(url) - len(clock)) if width < 1000 else "  "
    below: Span = (seen.store.durability, Style.FAINT)
    if trouble is not None:
        below = (f"this is old: {trouble}", Style.BAD)
    return ((name, Style.HEAD), (url, Style.PLAIN), (gap + clock, Style.FAINT)), (below,)


def _title(name: str, count: int, more: str = "") -> Line:
    return ((name, Style.HEAD), (f"  {count}", Style.PLAIN), (more, Style.FAINT))


def _workers(seen: Overview, width: int) -> _Section:
    rows: list[list[Span]] = [
        [
            (each.name, Style.PLAIN),
            (each.host, Style.PLAIN),
            (each.state, _STATES.get(each.state, Style.PLAIN)),
            (str(each.holds), Style.PLAIN),
            (f"{_age(each.heard_seconds_ago)} ago", Style.PLAIN),
            (_age(each.lease_seconds), Style.FAINT),
            (str(each.pid), Style.FAINT),
        ]
        for each in seen.workers
    ]
    if not rows:
        none: Line = (("  none: nothing is run; start one with limpet worker", Style.WARN),)
        return _Section(_title("WORKERS", 0), [none], 1)
    return _Section(_title("WORKERS", len(rows)), columns(_WORKERS, rows, width), 2)


def _queues(seen: Overview, rates: Mapping[str, float] | None, width: int) -> _Section:
    rows: list[list[Span]] = []
    for each in seen.queues:
        rate = None if rates is None else rates.get(each.queue)
        rows.append(
            [
                (each.queue, Style.PLAIN),
                _number(each.ready),
                _number(each.scheduled),
                _number(each.running),
                _number(each.blocked, Style.WARN),
                _number(each.failed, Style.BAD),
                ("-" if rate is None else _rate(rate), Style.PLAIN),
                _number(each.orphaned, Style.WARN),
                _remark(each),
            ]
        )
    return _Section(_title("QUEUES", len(rows)), columns(_QUEUES, rows, width) if rows else [], 2)


def _remark(queue: QueueTotals) -> Span:
    told = [remark] if (remark := queue_remark(queue)) else []
    if queue.quarantined:
        told.append(f"{queue.quarantined} quarantined")
    return ("; ".join(told), Style.WARN)


def _running(seen: Overview, width: int) -> _Section:
    rows: list[list[Span]] = []
    for each in seen.running:
        rows.append(
            [
                (each.task, Style.PLAIN),
                (each.id, Style.FAINT),
                (each.worker or "?", Style.PLAIN),
                (str(each.attempt), Style.PLAIN if each.attempt == 1 else Style.WARN),
                ("-" if each.seconds is None else _age(each.seconds), Style.PLAIN),
                _progress(each.progress),
                _note(each),
            ]
        )
    title = _title("RUNNING", seen.running_total)
    if not rows:
        return _Section(title, [], 0)
    lines = columns(_RUNNING, rows, width)
    if (more := seen.running_total - len(rows)) > 0:
        lines.append(_more(more))
    return _Section(title, lines, 3)


def _progress(progress: ProgressAnswer | None) -> Span:
    if progress is None:
        return "", Style.PLAIN
    if not progress.total:
        return f"{progress.done:g}", Style.PLAIN
    fraction = progress.done / progress.total
    return f"{bar(fraction, _BAR_CELLS)} {min(999, int(fraction * 100)):>3}%", Style.GOOD


def _note(job: RunningJob) -> Span:
    if job.cancel_requested:
        return "cancel requested", Style.WARN
    return job.progress.note if job.progress else "", Style.PLAIN


def _events(seen: Overview, width: int, now: datetime) -> _Section:
    rows: list[list[Span]] = [
        [
            (f"{_age((now - datetime.fromisoformat(each.at)).total_seconds())} ago", Style.FAINT),
            (each.event, Style.BAD if each.event in _BAD_EVENTS else Style.WARN),
            (each.task, Style.PLAIN),
            (each.job, Style.FAINT),
            (each.cause.text if each.cause else "", Style.PLAIN),
        ]
        for each in seen.events
    ]
    title: Line = (("LAST EVENTS", Style.HEAD),)
    return _Section(title, columns(_EVENTS, rows, width) if rows else [], 0)


def _fit(sections: list[_Section], height: int) -> int:
    """Take lines from the longest section until all fit; the last one shown says how many more.

    The answer is how many empty lines there is room for before each section.
    """
    wanted = [len(section.lines) for section in sections]
    events = sections[-1]
    gap = 1 if sum(section.height(1) for section in sections) <= height else 0
    while sum(section.height(gap) for section in sections) > height:
        longest = max(sections, key=lambda section: len(section.lines) - section.least)
        if len(longest.lines) <= longest.least:
            break
        longest.lines.pop()
        if longest is events and len(events.lines) < 2:
            events.lines.clear()
    for section, before in zip(sections, wanted, strict=True):
        if section is not events and 1 < len(section.lines) < before:
            section.lines[-1] = _more(before - len(section.lines) + 1)
    return gap


def _more(count: int) -> Line:
    return ((f"  … {count} more", Style.FAINT),)


def _number(value: int, style: Style = Style.PLAIN) -> Span:
    return (str(value), style) if value else ("0", Style.FAINT)


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def _age(seconds: float) -> str:
    seconds = max(0.0, seconds)
    return f"{seconds:.1f}s" if seconds < 10 else spoken(timedelta(seconds=int(seconds)))
