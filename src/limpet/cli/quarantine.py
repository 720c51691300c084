"""`limpet quarantine`: jobs whose arguments do not fit their task."""

import argparse
from typing import Any

from limpet.cli.asking import add_asking, carry_out
from limpet.cli.filters import add_filters, selection_of
from limpet.cli.output import ago, say, say_json, shortened, table
from limpet.cli.target import add_target, find_app, find_store
from limpet.domain.state import State
from limpet.ops.inspect import list_jobs
from limpet.ops.quarantine import release_many


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "quarantine",
        help="list jobs whose arguments do not fit, let them go on",
        description="Jobs whose arguments do not fit their task are put aside, because to run them "
        "again would not help. List them, newest first, with the reason. limpet job repair ID "
        "changes the arguments of one.",
    )
    _add_listing(parser)
    actions = parser.add_subparsers(dest="action", metavar="[ACTION]")
    listing = actions.add_parser(
        "list", help="which, and why", description="List them, newest first, with the reason."
    )
    _add_listing(listing, under=True)
    release = actions.add_parser(
        "release",
        help="let go on what fits by now",
        description="After the code was mended: check each as it is stored against the app, and "
        "let go on what fits. What still does not fit stays, and is told with the reason.",
    )
    add_asking(release)
    add_filters(release, state=False, under=True)
    add_target(release, under=True)
    release.set_defaults(run=_release)


def _add_listing(parser: argparse.ArgumentParser, *, under: bool = False) -> None:
    few: Any = argparse.SUPPRESS if under else 50
    first: Any = argparse.SUPPRESS if under else None
    parser.add_argument("--limit", type=int, choices=range(1, 1001), default=few, metavar="N",
                        help="how many (50)")  # fmt: skip
    parser.add_argument("--cursor", default=first, help="go on where the last page ended")
    add_filters(parser, state=False, under=under)
    add_target(parser, under=under)
    parser.set_defaults(run=_list)


def _list(arguments: argparse.Namespace) -> int:
    which = selection_of(arguments).within(State.QUARANTINED)
    page = list_jobs(find_store(arguments), which, arguments.cursor, arguments.limit)
    if arguments.json:
        say_json(page)
    elif not page.jobs:
        say("nothing is quarantined")
    else:
        rows = [
            (
                job.id,
                job.task,
                job.queue,
                ago(job.created_at),
                shortened(job.error.text, 120) if job.error else None,
            )
            for job in page.jobs
        ]
        table(("ID", "TASK", "QUEUE", "ENQUEUED", "WHY"), rows)
        if page.cursor:
            say(f"more: --cursor {page.cursor}")
    return 0


def _release(arguments: argparse.Namespace) -> int:
    which, app = selection_of(arguments), find_app(arguments)
    store = app.client.store
    return carry_out(
        arguments,
        "release",
        "released",
        lambda dry, tell: release_many(store, which, app, dry_run=dry, tell=tell),
    )
