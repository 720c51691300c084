"""Everything about one job, as `limpet job show` prints it; does no I/O."""

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from limpet.cli.style import OF_STATES, Style, block, line, marked, text
from limpet.domain.printable import printable_json
from limpet.domain.state import State
from limpet.ops.job_answer import ChildrenAnswer, EventAnswer, JobDetail
from limpet.ops.reason import Kind
from limpet.ops.record import plain

_FIRST = ("id", "task", "queue", "state")
_APART = {*_FIRST, "why", "blocked_by", "children", "timeline", "log"}
_LABEL_CELLS = 20
_BAD_EVENTS = {"failed", "lease_lost", "quarantined", "orphaned"}
_GOOD_EVENTS = {"succeeded"}


def job_picture(job: JobDetail) -> Iterator[RenderableType]:
    """The facts, the children, the timeline and the log."""
    facts = plain(job)
    yield _facts(job, facts)
    if job.error and (trace := job.error.traceback):
        yield text("traceback:", Style.FAINT)
        yield marked(trace)
    if job.children is not None:
        yield from _children(job.children)
    yield text("timeline:", Style.FAINT)
    yield _timeline(job)
    if job.log:
        yield _log(job)


def _facts(job: JobDetail, facts: dict[str, Any]) -> Table:
    """Every fact that differs from the usual value, on one or more lines each."""
    rows = Table.grid()
    rows.add_column(width=_LABEL_CELLS, no_wrap=True)
    rows.add_column(overflow="fold")

    def add(name: str, value: Any, style: Style = Style.PLAIN) -> None:
        words = printable_json(value) if isinstance(value, dict | list | tuple) else value
        rows.add_row(text(f"{name}:", Style.FAINT), block(words, style))

    for name in _FIRST[:-1]:
        add(name, facts[name], Style.HEAD if name == "id" else Style.PLAIN)
    add("state", job.state, OF_STATES.get(job.state, Style.PLAIN))
    if job.why.kind is not Kind.FINISHED:
        add("why", job.why.text, Style.WARN)
    for name, value in facts.items():
        usual = value in (None, False, {}, [], ()) or (name, value) == ("payload_version", 1)
        if name not in _APART and not usual:
            is_error = name == "error"
            add(name, value["text"] if is_error else value, Style.BAD if is_error else Style.PLAIN)
    return rows


def _children(children: ChildrenAnswer) -> Iterator[RenderableType]:
    counts = ", ".join(f"{count} {state}" for state, count in children.counts.items())
    yield line((f"{'children:':<{_LABEL_CELLS}}", Style.FAINT), (counts, Style.PLAIN), wraps=True)
    for child in children.failed:
        error = f": {child.error.text}" if child.error else ""
        yield text(f"  {child.id}  {child.task} failed{error}")
    if (more := children.counts.get(State.FAILED, 0) - len(children.failed)) > 0:
        yield text(f"  … and {more} more; limpet jobs --parent ID --state failed lists them")


def _timeline(job: JobDetail) -> Padding:
    rows = _columns(3)
    for event in job.timeline:
        style = Style.BAD if event.event in _BAD_EVENTS else Style.PLAIN
        style = Style.GOOD if event.event in _GOOD_EVENTS else style
        rows.add_row(_time(event.at), text(event.event, style), _more(event))
    return _indented(rows)


def _more(event: EventAnswer) -> Text:
    """Who held the job, and the cause."""
    gap = "  " if event.cause else ""
    holder = f"session {event.session} token {event.token}{gap}" if event.session else ""
    words = line((holder, Style.FAINT), wraps=True)
    return words if event.cause is None else words.append_text(block(event.cause.text))


def _log(job: JobDetail) -> Padding:
    rows = _columns(2)
    for entry in job.log:
        level = line((f"{entry.level}: ", Style.PLAIN), wraps=True)
        rows.add_row(_time(entry.at), level.append_text(block(entry.message)))
    return _indented(rows)


def _columns(count: int) -> Table:
    """A grid of `count` columns; the last one may take several lines."""
    rows = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(count - 1):
        rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    return rows


def _indented(rows: Table) -> Padding:
    return Padding(rows, (0, 0, 0, 2), expand=False)


def _time(at: str) -> Text:
    return text(at.replace("+00:00", "Z"), Style.FAINT)
