"""Before something is done to many jobs a person is asked; after it, the person is told."""

import argparse
import sys
import time
from collections.abc import Callable

from limpet.cli.output import note, say, say_json
from limpet.domain.errors import InvalidOption
from limpet.ops.bulk import BulkAnswer, Tally, Tell

_TELL_SECONDS = 1.0


def add_asking(parser: argparse.ArgumentParser) -> None:
    """The options of whatever is done to many jobs."""
    parser.add_argument("--dry-run", action="store_true", help="say how many, and do nothing")
    parser.add_argument("--yes", action="store_true", help="do it without asking")


def carry_out(
    arguments: argparse.Namespace,
    what: str,
    done: str,
    do: Callable[[bool, Tell], BulkAnswer],
) -> int:
    """Look, ask, do, tell; `what` and `done` are words such as "retry" and "retried"."""
    if arguments.dry_run:
        return _told(arguments, f"would be {done}", do(True, _Teller(0)))
    expected = 0
    if not arguments.yes:
        would = do(True, _Teller(0))
        expected = would.done + would.asked
        if not expected:
            return _told(arguments, f"would be {done}", would)
        if not _agreed(arguments, what, would):
            say("nothing was done")
            return 1
    return _told(arguments, done, do(False, _Teller(expected)))


def _agreed(arguments: argparse.Namespace, what: str, would: BulkAnswer) -> bool:
    jobs = _jobs(would.done + would.asked)
    if arguments.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidOption(
            f"this would {what} {jobs}; pass --yes to do it, or --dry-run to look first."
        )
    note(f"{what} {jobs}? [y/N] ", end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _told(arguments: argparse.Namespace, done: str, answer: BulkAnswer) -> int:
    if arguments.json:
        say_json(answer)
        return 1 if answer.refused else 0
    if not answer.matched:
        say("no job matches")
        return 0
    say(", ".join(_parts(done, answer)))
    for job in answer.refusals:
        say(f"  {job.id}  {job.why}")
    if (more := answer.refused - len(answer.refusals)) > 0:
        say(f"  … and {more} more")
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


class _Teller:
    """Says once a second how far it is, beside what is printed at the end."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._next = time.monotonic() + _TELL_SECONDS

    def __call__(self, tally: Tally) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _TELL_SECONDS
        of = f" of {self._expected:,}" if self._expected and not tally.dry_run else ""
        word = "looked at" if tally.dry_run else "done"
        note(f"{tally.matched:,}{of} jobs {word}")
