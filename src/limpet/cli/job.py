"""`limpet job`: show, explain and change one job."""

from typing import Annotated

import typer

from limpet.cli.command import command, group
from limpet.cli.job_picture import job_picture
from limpet.cli.json_input import json_object, named_value
from limpet.cli.output import print_json, print_line, show
from limpet.cli.target import Common, find_app, find_store
from limpet.domain.errors import InvalidOption
from limpet.domain.ids import checked_id
from limpet.domain.state import State
from limpet.ops.control import cancel_job, retry_job
from limpet.ops.inspect import show_job
from limpet.ops.quarantine import change_and_release, edit_and_release
from limpet.ops.record import plain
from limpet.ops.why import why_job
from limpet.storage.contract.store import Store

Id = Annotated[str, typer.Argument(metavar="ID")]

app = group("Show, explain, retry, cancel or repair one job.")


@command(app, "show", "everything about a job, with its timeline")
def show_one(job_id: Id, common: Common) -> int:
    """Show a job."""
    job = show_job(find_store(common), checked_id(job_id))
    if common.json:
        print_json(job)
        return 0
    show(*job_picture(job))
    return 0


@command(app, "why", "why a job does not run")
def why(job_id: Id, common: Common) -> int:
    """Explain a job."""
    reason = why_job(find_store(common), job_id)
    if common.json:
        print_json({"id": job_id, **plain(reason)})
    else:
        print_line(reason.text)
    return 0


@command(app, "retry", "run a finished job again, in a new round")
def retry(job_id: Id, common: Common) -> int:
    """Retry a job."""
    store = find_store(common)
    round_ = retry_job(store, job_id)
    state = store.states([job_id]).get(job_id, State.READY)
    return _done(common, job_id, store, f"{job_id} is {state} again, in round {round_}")


@command(app, "cancel", "cancel a job; a running one is asked to stop")
def cancel(
    job_id: Id,
    common: Common,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="kept on the job's timeline")
    ] = "",
) -> int:
    """Cancel a job."""
    store = find_store(common)
    seen = store.job(checked_id(job_id))
    state = cancel_job(store, job_id, reason)
    relaunch = state is State.FAILED and seen is not None and seen.relaunch_at is not None
    if state is State.RUNNING:
        text = f"{job_id} is running; its worker was asked to stop it"
    elif state is State.CANCELLED:
        text = f"{job_id} is cancelled"
    elif relaunch:
        text = f"{job_id} has failed and will not be relaunched"
    else:
        text = f"{job_id} was already {state}; nothing changed"
    _done(common, job_id, store, text)
    return 0 if relaunch or state in (State.RUNNING, State.CANCELLED) else 1


@command(
    app,
    "repair",
    "let a quarantined job go on, with other arguments or as it is",
    about="Check arguments against the task of the app and let a quarantined job go on with them. "
    "Without arguments, check the job as it is stored. *** in place of a secret keeps the secret.",
)
def repair(
    job_id: Id,
    common: Common,
    args: Annotated[
        str | None,
        typer.Argument(metavar="ARGS", help="all arguments, as a JSON object; - reads them"),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="change one argument, to JSON or a text; may be repeated",
        ),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="take one argument out; may be repeated"),
    ] = None,
) -> int:
    """Let a quarantined job go on."""
    found = find_app(common)
    store = found.client.store
    if changes or unset:
        if args is not None:
            raise InvalidOption("give all arguments as ARGS, or some with --set and --unset.")
        changed = dict(named_value(text) for text in changes or ())
        state = change_and_release(store, job_id, changed, unset or [], found)
    else:
        given = None if args is None else json_object(args)
        state = edit_and_release(store, job_id, given, found)
    return _done(common, job_id, store, f"{job_id} fits its task and is {state}")


def _done(common: Common, job_id: str, store: Store, text: str) -> int:
    if common.json:
        print_json(show_job(store, job_id))
    else:
        print_line(text)
    return 0
