"""`limpet jobs`: list jobs; retry, discard or move many."""

from typing import Annotated

import typer
from rich.text import Text

from limpet.cli.command import command, group, without_action
from limpet.cli.consent import Consent, carry_out
from limpet.cli.filters import StateFilters
from limpet.cli.output import ago, print_json, print_line, shortened, show_table
from limpet.cli.page import Paging
from limpet.cli.style import Column, Style, state_text, text
from limpet.cli.target import Common, find_store
from limpet.domain.errors import InvalidOption
from limpet.domain.state import State
from limpet.ops.bulk import discard_many, requeue_many, retry_many
from limpet.ops.inspect import list_jobs
from limpet.ops.job_answer import JobAnswer
from limpet.ops.selection import Selection

_COLUMNS = (
    Column("ID", 10),
    Column("TASK", 9, least=10),
    Column("QUEUE", 5, least=7),
    Column("STATE", 8),
    Column("ENQUEUED", 6),
    Column("FAILURES", 4, right=True),
    Column("ORPHANS", 3, right=True),
    Column("REMARK", 7, least=14),
)
_AGAIN = " Can be stopped and run again; what is done stays done."

app = group(runs_alone=True)


@without_action(
    app,
    "List jobs, newest first. With retry, discard or move, do that to all that the filters choose; "
    "it says how many and asks first.",
)
def show(paging: Paging, which: StateFilters, common: Common) -> int:
    """List jobs."""
    found = which.selection()
    page = list_jobs(find_store(common), found, paging.cursor, paging.limit)
    if common.json:
        print_json(page)
        return 0
    if not page.jobs:
        print_line("no jobs")
        return 0
    rows = [
        (
            text(job.id),
            text(job.task),
            text(job.queue),
            state_text(job.state),
            text(ago(job.created_at) or "-"),
            _count(job.failures),
            _count(job.orphans),
            text(_remark(job)),
        )
        for job in page.jobs
    ]
    show_table(_COLUMNS, rows)
    if page.cursor:
        print_line(f"more: --cursor {page.cursor}")
    return 0


def _count(number: int) -> Text:
    return text(number, Style.WARN if number else Style.FAINT)


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


EveryJob = Annotated[bool, typer.Option("--all", help="every job, with no filter")]


@command(
    app,
    "retry",
    "run finished jobs again, each in a new round",
    about="Run finished jobs again, each in a new round: the failed ones, unless --state names "
    "others." + _AGAIN,
)
def retry(consent: Consent, which: StateFilters, common: Common) -> int:
    """Retry many."""
    chosen, store = which.selection(), find_store(common)
    return carry_out(
        consent,
        "retry",
        "retried",
        lambda dry, on_progress: retry_many(store, chosen, dry_run=dry, on_progress=on_progress),
        json=common.json,
    )


@command(
    app,
    "discard",
    "cancel jobs that wait or are quarantined",
    about="Cancel jobs that wait or are quarantined, ask running ones to stop, and let none that "
    "failed be relaunched. Nothing is deleted: they can be looked at, and retried." + _AGAIN,
)
def discard(
    consent: Consent,
    which: StateFilters,
    common: Common,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="kept on the jobs' timelines")
    ] = "",
    everything: EveryJob = False,
) -> int:
    """Discard many."""
    chosen, store = _chosen("discard", which, everything=everything), find_store(common)
    return carry_out(
        consent,
        "discard",
        "discarded",
        lambda dry, on_progress: discard_many(
            store, chosen, reason, dry_run=dry, on_progress=on_progress
        ),
        json=common.json,
    )


@command(
    app,
    "move",
    "move jobs that wait to another queue",
    about="Move jobs that wait to another queue, in the order that they had." + _AGAIN,
)
def move(
    to: Annotated[str, typer.Option("--to", metavar="QUEUE", help="where to")],
    consent: Consent,
    which: StateFilters,
    common: Common,
    everything: EveryJob = False,
) -> int:
    """Move many."""
    chosen, store = _chosen("move", which, everything=everything), find_store(common)
    return carry_out(
        consent,
        f"move to {to}",
        f"moved to {to}",
        lambda dry, on_progress: requeue_many(
            store, chosen, to, dry_run=dry, on_progress=on_progress
        ),
        json=common.json,
    )


def _chosen(action: str, which: StateFilters, *, everything: bool) -> Selection:
    chosen = which.selection()
    if chosen == Selection() and not everything:
        raise InvalidOption(
            f"limpet jobs {action} needs a filter, such as --queue or --task; --all means every "
            f"job."
        )
    return chosen
