"""`limpet demo`: kill a worker, watch the recovery, and see what was proved."""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from limpet import settings
from limpet.cli.command import command, group
from limpet.cli.live import Live
from limpet.cli.output import print_json
from limpet.cli.style import Style, bar, beside, line, text
from limpet.cli.target import Debug
from limpet.demo import KEPT
from limpet.demo.checks import Check, Evidence, Verdict, judge
from limpet.domain.errors import InvalidOption
from limpet.domain.state import State
from limpet.host.processes import SUPPORTED

if TYPE_CHECKING:
    from limpet.demo.story import StoryRow

_LABEL_CELLS = 11
_PLAIN_EVERY_SECONDS = 2.0
_LABELS = {"kill -9": Style.BAD, "recovered": Style.GOOD, "gone": Style.GOOD, "done": Style.GOOD}
_SIGNS = {
    Verdict.KEPT: ("✓", Style.GOOD),
    Verdict.LATE: ("~", Style.WARN),
    Verdict.BROKEN: ("✗", Style.BAD),
}


app = group()


@command(
    app,
    "demo",
    "kill a worker and watch the recovery, in half a minute",
    about="Start two workers on a throw-away SQLite file, give them jobs, kill with -9, watch the "
    "recovery, and check what was promised. Exit code 1 if a promise broke.",
)
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="keep the folder, to look at it")] = False,
    json: Annotated[bool, typer.Option("--json", help="print the summary as JSON only")] = False,
    debug: Debug = False,
) -> int:
    """Play the demo, judge it, and print the verdict."""
    if not SUPPORTED:
        raise InvalidOption(
            f"the demo runs workers, which need Linux or macOS, not {sys.platform}."
        )
    from limpet.demo.story import perform

    began = time.monotonic()
    with _folder(keep) as folder, Live(quiet=json) as live:
        narrator = TerminalNarrator(live, began)
        narrator.begin()
        try:
            evidence = perform(folder, narrator)
        except (KeyboardInterrupt, SystemExit):
            live.write(text("interrupted; all that was started has been ended", Style.WARN))
            raise
    checks = judge(evidence)
    seconds = time.monotonic() - began
    kept = all(check.verdict is not Verdict.BROKEN for check in checks)
    if json:
        print_json(_record(checks, evidence, seconds, folder if keep else None))
    else:
        for row in _summary(checks, seconds, live.width):
            live.write(row)
        if keep:
            live.write(line((f"The folder was kept: {folder}", Style.PLAIN), wraps=True))
        elif not kept:
            live.write(text("limpet demo --keep leaves the store and the logs."))
    return 0 if kept else 1


@contextmanager
def _folder(keep: bool) -> Iterator[Path]:
    """Make a temporary folder the current one; remove it afterwards, whatever happens."""
    home = settings.current_folder()
    ending = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, _interrupt) for number in ending}
    folder = Path(tempfile.mkdtemp(prefix="limpet-demo-")).resolve()
    # The user's settings are for another store than the demo's.
    others = [name for name in os.environ if name.startswith("LIMPET_") and name != KEPT]
    own = {name: os.environ.pop(name) for name in others}
    try:
        os.chdir(folder)
        yield folder
    finally:
        before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # the cleanup takes only a moment
        os.environ.update(own)
        os.chdir(home)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> None:
    sys.exit(128 + number)


class TerminalNarrator:
    """Prints the story: a line for each event, and the jobs below."""

    def __init__(self, live: Live, began: float) -> None:
        self._live = live
        self._began = began
        self._last_shown = began

    def begin(self) -> None:
        story = (
            "Two workers share some jobs. One worker is killed with -9, all of it. "
            "Nothing may be lost, run twice at once, or be left behind."
        )
        self._live.write(text("limpet demo", Style.HEAD))
        for part in wrap(story, self._live.width):
            self._live.write(text(part))
        self._live.write(text(""))

    def report(self, what: str, words: str) -> None:
        """Print one event; it takes more lines where the terminal is narrow."""
        clock = f"{time.monotonic() - self._began:5.1f} s  "
        indent = len(clock) + _LABEL_CELLS
        first, *rest = wrap(words, max(20, self._live.width - indent)) or [""]
        label = (f"{what:<{_LABEL_CELLS}}", _LABELS.get(what, Style.HEAD))
        self._live.write(line((clock, Style.FAINT), label, (first, Style.PLAIN)))
        for part in rest:
            self._live.write(text(" " * indent + part))

    def show(self, rows: "Sequence[StoryRow]") -> None:
        """Show the progress of the jobs: bars on a terminal, elsewhere a line now and then."""
        if self._live.is_terminal:
            self._live.show([text(""), *(_row(row, self._live.width) for row in rows)])
        elif time.monotonic() - self._last_shown >= _PLAIN_EVERY_SECONDS:
            self._last_shown = time.monotonic()
            open_ = [row for row in rows if row.state not in (State.SUCCEEDED, State.FAILED)]
            if open_:
                self.report("progress", ", ".join(f"{row.name} {_percent(row)}" for row in open_))


def _percent(row: "StoryRow") -> str:
    if row.state is State.SUCCEEDED:
        return "done"
    return "failed" if row.state is State.FAILED else f"{int((row.fraction or 0) * 100)}%"


def _row(row: "StoryRow", width: int) -> RenderableType:
    """The bar of a job and its note, as `limpet top` draws them."""
    done, failed = row.state is State.SUCCEEDED, row.state is State.FAILED
    fraction = 1.0 if done else 0.0 if failed else row.fraction or 0.0
    style = Style.GOOD if done else Style.BAD if failed else Style.PLAIN
    cells = 20 if width >= 76 else 10
    run = f"run {row.attempt}" if row.attempt > 1 else ""
    if not (done or failed) and row.state is not State.RUNNING and row.attempt > 1:
        run = f"waits for run {row.attempt}"
    words = ", ".join(part for part in (run, row.note) if part)
    return beside(
        text(f"  {row.name:<11}"),
        bar(fraction, cells, style),
        text(f" {_percent(row):>6}  ", style),
        text(f"{row.worker:<5}"),
        text(words, Style.FAINT),
    )


def _summary(checks: Sequence[Check], seconds: float, width: int) -> Iterator[Text]:
    broken = [check.promise for check in checks if check.verdict is Verdict.BROKEN]
    yield text("")
    yield text("What was proved" if not broken else "What was found", Style.HEAD)
    label = max(len(check.promise) for check in checks) + 1
    for check in checks:
        sign, style = _SIGNS[check.verdict]
        cells = width - label - 4
        if cells >= 36:
            first, *rest = wrap(check.figure, cells) or [""]
            indent = label + 4
        else:
            first, rest, indent = "", wrap(check.figure, max(20, width - 4)), 4
        look = Style.FAINT if style is Style.GOOD else style
        name = (f"{check.promise:<{label}}", Style.PLAIN)
        yield line((f"  {sign} ", style), name, (first, look))
        for part in rest:
            yield text(" " * indent + part, look)
    yield text("")
    took = (f"{seconds:.1f} s", Style.FAINT)
    if broken:
        yield line((f"Broken: {', '.join(broken)}. ", Style.BAD), took)
    else:
        yield line(("Every promise was kept. ", Style.GOOD), took)
        yield text("Next: limpet worker module:app, and limpet top to watch it.", Style.FAINT)


def _record(
    checks: Sequence[Check], evidence: Evidence, seconds: float, folder: Path | None
) -> dict[str, Any]:
    return {
        "kept": all(check.verdict is not Verdict.BROKEN for check in checks),
        "seconds": round(seconds, 3),
        "checks": [
            {"promise": item.promise, "verdict": str(item.verdict), "figure": item.figure}
            for item in checks
        ],
        "recoveries": [
            {
                "killed": item.killed,
                "jobs": item.jobs,
                "promised_seconds": item.promised_seconds,
                "ready_seconds": list(item.ready),
                "running_seconds": list(item.running),
            }
            for item in evidence.recoveries
        ],
        "jobs": len(evidence.jobs),
        "folder": None if folder is None else str(folder),
    }
