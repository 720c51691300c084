"""Changes of many jobs: ask the person for consent before, report the result after."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from limpet.cli.output import note, print_json, print_line
from limpet.cli.progress import ProgressLine
from limpet.domain.errors import InvalidOption
from limpet.ops.bulk import BulkAnswer, OnProgress, Tally


@dataclass(frozen=True, slots=True)
class Consent:
    """The options of every command that changes many jobs."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="count the jobs, change nothing")] = (
        False
    )
    yes: Annotated[bool, typer.Option("--yes", help="do it without asking")] = False


def carry_out(
    consent: Consent,
    what: str,
    done: str,
    do: Callable[[bool, OnProgress], BulkAnswer],
    *,
    json: bool,
) -> int:
    """Count, ask, do, report; `what` and `done` are words such as "retry" and "retried"."""
    if consent.dry_run:
        return _report(f"would be {done}", _do(do, True), json)
    expected = 0
    if not consent.yes:
        would = _do(do, True)
        expected = would.done + would.asked
        if not expected:
            return _report(f"would be {done}", would, json)
        if not _agreed(what, would, json):
            print_line("nothing was done")
            return 1
    return _report(done, _do(do, False, expected), json)


def _do(
    do: Callable[[bool, OnProgress], BulkAnswer], dry_run: bool, expected: int = 0
) -> BulkAnswer:
    with ProgressLine() as progress:
        return do(dry_run, _tally_printer(progress, expected))


def _agreed(what: str, would: BulkAnswer, json: bool) -> bool:
    jobs = _jobs(would.done + would.asked)
    if json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidOption(
            f"this would {what} {jobs}; pass --yes to do it, or --dry-run to look first."
        )
    note(f"{what} {jobs}? [y/N] ", end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _report(done: str, answer: BulkAnswer, json: bool) -> int:
    if json:
        print_json(answer)
        return 1 if answer.refused else 0
    if not answer.matched:
        print_line("no job matches")
        return 0
    print_line(", ".join(_parts(done, answer)))
    for job in answer.refusals:
        print_line(f"  {job.id}  {job.why}")
    if (more := answer.refused - len(answer.refusals)) > 0:
        print_line(f"  … and {more} more")
    return 1 if answer.refused else 0


def _parts(done: str, answer: BulkAnswer) -> list[str]:
    parts = [f"{_jobs(answer.done)} {done}"] if answer.done or not answer.asked else []
    if answer.asked:
        verb = "would be asked" if answer.dry_run else "asked"
        parts.append(f"{_jobs(answer.asked, 'running ')} {verb} to stop")
    parts += [f"{count:,} skipped ({why})" for why, count in sorted(answer.skipped.items())]
    if answer.refused:
        parts.append(f"{answer.refused:,} refused")
    return parts


def _jobs(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}{'job' if count == 1 else 'jobs'}"


def _tally_printer(progress: ProgressLine, expected: int) -> OnProgress:
    def update(tally: Tally) -> None:
        total = 0 if tally.dry_run else expected
        of = f" of {total:,}" if total else ""
        word = "looked at" if tally.dry_run else "done"
        progress.update(f"{tally.matched:,}{of} jobs {word}", tally.matched, total)

    return update
