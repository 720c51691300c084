"""`limpet jobs`: list jobs; retry, discard or move many."""

import argparse
from typing import Any

from limpet.cli.asking import add_asking, carry_out
from limpet.cli.filters import add_filters, selection_of
from limpet.cli.output import ago, say, say_json, shortened, table
from limpet.cli.target import add_target, find_store
from limpet.domain.errors import InvalidOption
from limpet.domain.state import State
from limpet.ops.bulk import discard_many, requeue_many, retry_many
from limpet.ops.inspect import list_jobs
from limpet.ops.job_answer import JobAnswer
from limpet.ops.selection import Selection

_TEXTS = {
    "retry": "Run finished jobs again, each in a new round: the failed ones, unless --state names "
    "others.",
    "discard": "Cancel jobs that wait or are quarantined, ask running ones to stop, and let none "
    "that failed be relaunched. Nothing is deleted: they can be looked at, and retried.",
    "move": "Move jobs that wait to another queue, in the order that they had.",
}


def add(commands: Any) -> None:
    """Add the command to the command line."""
    many = commands.add_parser(
        "jobs",
        help="list jobs, newest first; retry, discard or move many",
        description="List jobs, newest first. With retry, discard or move, do that to all that "
        "the filters choose; it says how many and asks first.",
    )
    many.add_argument("--limit", type=_count, default=50, help="how many (50)")
    many.add_argument("--cursor", help="go on where the last page ended")
    add_filters(many)
    add_target(many)
    many.set_defaults(run=_list)
    actions = many.add_subparsers(dest="action", metavar="[ACTION]")
    for name, run in (("retry", _retry), ("discard", _discard), ("move", _move)):
        action = actions.add_parser(
            name, help=_TEXTS[name].partition(":")[0].partition(",")[0].lower().rstrip("."),
            description=_TEXTS[name] + " Can be stopped and run again; what is done stays done.",
        )  # fmt: skip
        if name == "discard":
            action.add_argument("--reason", default="", help="kept on the jobs' timelines")
        if name == "move":
            action.add_argument("--to", required=True, metavar="QUEUE", help="where to")
        if name != "retry":
            action.add_argument("--all", action="store_true", help="every job, with no filter")
        add_asking(action)
        add_filters(action, under=True)
        add_target(action, under=True)
        action.set_defaults(run=run)


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= 1000:
        raise argparse.ArgumentTypeError("write a number from 1 to 1000")
    return number


def _list(arguments: argparse.Namespace) -> int:
    which = selection_of(arguments)
    page = list_jobs(find_store(arguments), which, arguments.cursor, arguments.limit)
    if arguments.json:
        say_json(page)
        return 0
    rows = [
        (
            job.id,
            job.task,
            job.queue,
            job.state,
            ago(job.created_at),
            job.failures,
            job.orphans,
            _remark(job),
        )
        for job in page.jobs
    ]
    if not rows:
        say("no jobs")
        return 0
    table(("ID", "TASK", "QUEUE", "STATE", "ENQUEUED", "FAILURES", "ORPHANS", "REMARK"), rows)
    if page.cursor:
        say(f"more: --cursor {page.cursor}")
    return 0


def _remark(job: JobAnswer) -> str:
    if job.state is State.SCHEDULED:
        return f"due {ago(job.ready_at)}" + (_why(job) and f", after {_why(job)}")
    if job.state is State.RUNNING and job.cancel_requested_at:
        return "cancel requested"
    if job.pending:
        return f"waits for {job.pending} {'child' if job.pending == 1 else 'children'}"
    if job.blocked_by:
        return job.blocked_by
    if job.relaunch_at:
        return f"relaunched {ago(job.relaunch_at)}, after {_why(job)}"
    return _why(job)


def _why(job: JobAnswer) -> str:
    return shortened(job.error.text, 60) if job.error else ""


def _retry(arguments: argparse.Namespace) -> int:
    which, store = selection_of(arguments), find_store(arguments)
    return carry_out(
        arguments,
        "retry",
        "retried",
        lambda dry, tell: retry_many(store, which, dry_run=dry, tell=tell),
    )


def _discard(arguments: argparse.Namespace) -> int:
    which, store = _chosen(arguments), find_store(arguments)
    return carry_out(
        arguments,
        "discard",
        "discarded",
        lambda dry, tell: discard_many(store, which, arguments.reason, dry_run=dry, tell=tell),
    )


def _move(arguments: argparse.Namespace) -> int:
    which, store = _chosen(arguments), find_store(arguments)
    return carry_out(
        arguments,
        f"move to {arguments.to}",
        f"moved to {arguments.to}",
        lambda dry, tell: requeue_many(store, which, arguments.to, dry_run=dry, tell=tell),
    )


def _chosen(arguments: argparse.Namespace) -> Selection:
    which = selection_of(arguments)
    if which == Selection() and not arguments.all:
        raise InvalidOption(
            f"limpet jobs {arguments.action} needs a filter, such as --queue or --task; --all "
            f"means every job."
        )
    return which
