"""`limpet quarantine`: jobs whose arguments do not fit their task."""

from limpet.cli.command import command, group, without_action
from limpet.cli.consent import Consent, carry_out
from limpet.cli.filters import Filters
from limpet.cli.output import ago, print_json, print_line, shortened, show_table
from limpet.cli.page import Paging
from limpet.cli.style import Column, Style, text
from limpet.cli.target import Common, find_app, find_store
from limpet.domain.state import State
from limpet.ops.inspect import list_jobs
from limpet.ops.quarantine import release_many

_COLUMNS = (
    Column("ID", 10),
    Column("TASK", 9, least=8),
    Column("QUEUE", 4, least=5),
    Column("ENQUEUED", 5),
    Column("WHY", 8, least=20),
)

app = group(runs_alone=True)


@without_action(
    app,
    "Jobs whose arguments do not fit their task are put aside, because running them again would "
    "not help. List them, newest first, with the reason. limpet job repair ID changes the "
    "arguments of one.",
)
@command(
    app, "list", "list them, with the reason", about="List them, newest first, with the reason."
)
def show(paging: Paging, which: Filters, common: Common) -> int:
    """List the quarantined jobs."""
    chosen = which.selection().within(State.QUARANTINED)
    page = list_jobs(find_store(common), chosen, paging.cursor, paging.limit)
    if common.json:
        print_json(page)
    elif not page.jobs:
        print_line("nothing is quarantined")
    else:
        rows = [
            (
                text(job.id),
                text(job.task),
                text(job.queue),
                text(ago(job.created_at) or "-"),
                text(shortened(job.error.text, 120) if job.error else "-", Style.WARN),
            )
            for job in page.jobs
        ]
        show_table(_COLUMNS, rows)
        if page.cursor:
            print_line(f"more: --cursor {page.cursor}")
    return 0


@command(
    app,
    "release",
    "let those go on that fit by now",
    about="After the code was corrected: check each quarantined job against the app, and let those "
    "go on that fit. A job that still does not fit stays, and is listed with the reason.",
)
def release(consent: Consent, which: Filters, common: Common) -> int:
    """Release the jobs that fit."""
    chosen, found = which.selection(), find_app(common)
    store = found.client.store
    return carry_out(
        consent,
        "release",
        "released",
        lambda dry, on_progress: release_many(
            store, chosen, found, dry_run=dry, on_progress=on_progress
        ),
        json=common.json,
    )
