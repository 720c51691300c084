"""The picture that `limpet top` draws of an overview; fits it to a width and a height, no I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rich.console import Group, RenderableType
from rich.text import Text

from limpet.cli.remark import queue_remark
from limpet.cli.style import Column, Row, Style, bar, beside, line, table, text
from limpet.domain.duration import spoken
from limpet.ops.job_answer import ProgressAnswer
from limpet.ops.overview import Overview, QueueTotals, RunningJob

_BAR_CELLS = 16
_INDENT = 2
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
    Column("WHY", 3, least=30),
)


@dataclass
class _Section:
    """Rows of a table; fewer of them are shown where the terminal is low.

    `hidden`: how many more rows exist than `rows` has. `least`: the fewest lines to keep.
    """

    title: Text
    heads: Sequence[Column]
    rows: list[Row]
    least: int
    hidden: int = 0
    counts_hidden: bool = True
    note: Text | None = None
    lines: int = field(init=False)

    def __post_init__(self) -> None:
        self.lines = 0 if self.is_empty else self._wanted

    @property
    def is_empty(self) -> bool:
        return not self.rows and self.note is None

    @property
    def _wanted(self) -> int:
        return (1 + len(self.rows) if self.rows else 0) + bool(self.note) + bool(self.hidden)

    def height(self, gap: int) -> int:
        """Lines, with the title and the empty lines before it."""
        return self.lines + 1 + gap if self.lines else 0

    def parts(self, width: int | None) -> list[RenderableType]:
        """The title, and the rows or the note below it."""
        if self.note is not None:
            return [self.title, self.note]
        whole = self.lines == self._wanted
        count = len(self.rows) if whole else self.lines - 1 - self.counts_hidden
        shown = self.rows[: max(0, count)]
        parts: list[RenderableType] = [self.title, table(self.heads, shown, width, _INDENT)]
        hidden = self.hidden + len(self.rows) - len(shown)
        if hidden and self.counts_hidden and self.lines > 1:
            parts.append(text(f"  … {hidden} more", Style.FAINT))
        return parts


def picture(
    seen: Overview,
    rates: Mapping[str, float] | None,
    width: int | None,
    height: int | None = None,
    trouble: str | None = None,
) -> Group:
    """One look at the store; `trouble`: why a newer look failed."""
    now = datetime.fromisoformat(seen.at)
    parts: list[RenderableType] = list(_head(seen, width, now, trouble))
    sections = [_workers(seen), _queues(seen, rates), _running(seen), _events(seen, now)]
    gap = 1 if height is None else _fit(sections, height - len(parts))
    for section in sections:
        if section.lines:
            parts += [*[text("")] * gap, *section.parts(width)]
    return Group(*parts)


def _head(
    seen: Overview, width: int | None, now: datetime, trouble: str | None
) -> tuple[Text, Text]:
    clock = now.astimezone().strftime("%H:%M:%S")
    head = line(("limpet top  ", Style.HEAD), (seen.store.url, Style.PLAIN))
    if width is not None:
        head.truncate(max(0, width - len(clock) - 2), overflow="ellipsis", pad=True)
    head.append_text(text(f"  {clock}", Style.FAINT))
    below = text(seen.store.durability, Style.FAINT)
    if trouble is not None:
        below = text(f"this is old: {trouble}", Style.BAD)
    return head, below


def _title(name: str, count: int) -> Text:
    return line((name, Style.HEAD), (f"  {count}", Style.PLAIN))


def _workers(seen: Overview) -> _Section:
    rows: list[Row] = [
        [
            text(worker.name),
            text(worker.host),
            text(worker.state, _STATES.get(worker.state, Style.PLAIN)),
            text(worker.holds),
            text(f"{_age(worker.heard_seconds_ago)} ago"),
            text(_age(worker.lease_seconds), Style.FAINT),
            text(worker.pid, Style.FAINT),
        ]
        for worker in seen.workers
    ]
    if rows:
        return _Section(_title("WORKERS", len(rows)), _WORKERS, rows, 2)
    none = text("  none: no job is run; start one with limpet worker", Style.WARN)
    return _Section(_title("WORKERS", 0), _WORKERS, [], 1, note=none)


def _queues(seen: Overview, rates: Mapping[str, float] | None) -> _Section:
    rows: list[Row] = []
    for queue in seen.queues:
        rate = None if rates is None else rates.get(queue.queue)
        rows.append(
            [
                text(queue.queue),
                _number(queue.ready),
                _number(queue.scheduled),
                _number(queue.running),
                _number(queue.blocked, Style.WARN),
                _number(queue.failed, Style.BAD),
                text("-" if rate is None else _rate(rate)),
                _number(queue.orphaned, Style.WARN),
                _remark(queue),
            ]
        )
    return _Section(_title("QUEUES", len(rows)), _QUEUES, rows, 2)


def _remark(queue: QueueTotals) -> Text:
    remarks = [remark] if (remark := queue_remark(queue)) else []
    if queue.quarantined:
        remarks.append(f"{queue.quarantined} quarantined")
    return text("; ".join(remarks), Style.WARN)


def _running(seen: Overview) -> _Section:
    rows: list[Row] = [
        [
            text(job.task),
            text(job.id, Style.FAINT),
            text(job.worker or "?"),
            text(job.attempt, Style.PLAIN if job.attempt == 1 else Style.WARN),
            text("-" if job.seconds is None else _age(job.seconds)),
            _progress(job.progress),
            _note(job),
        ]
        for job in seen.running
    ]
    hidden = seen.running_total - len(rows) if rows else 0
    title = _title("RUNNING", seen.running_total)
    return _Section(title, _RUNNING, rows, 3, hidden=max(0, hidden))


def _progress(progress: ProgressAnswer | None) -> RenderableType:
    if progress is None:
        return text("")
    if not progress.total:
        return text(f"{progress.done:g}")
    fraction = progress.done / progress.total
    percent = text(f" {min(999, int(fraction * 100)):>3}%", Style.GOOD)
    return beside(bar(fraction, _BAR_CELLS), percent)


def _note(job: RunningJob) -> Text:
    if job.cancel_requested:
        return text("cancel requested", Style.WARN)
    return text(job.progress.note if job.progress else "")


def _events(seen: Overview, now: datetime) -> _Section:
    rows: list[Row] = [
        [
            text(f"{_age((now - datetime.fromisoformat(event.at)).total_seconds())} ago",
                 Style.FAINT),
            text(event.event, Style.BAD if event.event in _BAD_EVENTS else Style.WARN),
            text(event.task),
            text(event.job, Style.FAINT),
            text(event.cause.text if event.cause else ""),
        ]
        for event in seen.events
    ]  # fmt: skip
    title = text("LAST EVENTS", Style.HEAD)
    return _Section(title, _EVENTS, rows, 0, counts_hidden=False)


def _fit(sections: list[_Section], height: int) -> int:
    """Take lines from the longest section until all fit; return the empty lines before each."""
    events = sections[-1]
    gap = 1 if sum(section.height(1) for section in sections) <= height else 0
    while sum(section.height(gap) for section in sections) > height:
        longest = max(sections, key=lambda section: section.lines - section.least)
        if longest.lines <= longest.least:
            break
        longest.lines -= 1
        if longest is events and events.lines < 2:
            events.lines = 0
    return gap


def _number(value: int, style: Style = Style.PLAIN) -> Text:
    return text(value, style) if value else text(0, Style.FAINT)


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def _age(seconds: float) -> str:
    seconds = max(0.0, seconds)
    return f"{seconds:.1f}s" if seconds < 10 else spoken(timedelta(seconds=int(seconds)))
