"""`limpet job`: everything about one job, and what can be done to it."""

import argparse
from typing import Any

from limpet.cli.json_input import json_object, named_value
from limpet.cli.output import say, say_block, say_json
from limpet.cli.target import add_target, find_app, find_store
from limpet.domain.errors import InvalidOption
from limpet.domain.ids import checked_id
from limpet.domain.printable import printable_json
from limpet.domain.state import State
from limpet.ops.control import cancel_job, retry_job
from limpet.ops.inspect import show_job
from limpet.ops.job_answer import ChildrenAnswer
from limpet.ops.quarantine import change_and_release, edit_and_release
from limpet.ops.reason import Kind
from limpet.ops.record import plain
from limpet.ops.why import why_job
from limpet.storage.contract.store import Store

_FIRST = ("id", "task", "queue", "state")
_APART = {*_FIRST, "why", "blocked_by", "children", "timeline", "log"}


def add(commands: Any) -> None:
    """Add the command to the command line."""
    one = commands.add_parser("job", help="show, explain, retry, cancel or repair one job")
    actions = one.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, run, text in (
        ("show", _show, "everything about a job, with its timeline"),
        ("why", _why, "why a job does not run"),
        ("retry", _retry, "run a finished job again, in a new round"),
        ("cancel", _cancel, "cancel a job; a running one is asked to stop"),
        ("repair", _repair, "let a quarantined job go on, with other arguments or as it is"),
    ):
        action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        action.add_argument("id", metavar="ID")
        if name == "cancel":
            action.add_argument("--reason", default="", help="kept on the job's timeline")
        if name == "repair":
            _add_repair(action)
        add_target(action)
        action.set_defaults(run=run)


def _add_repair(action: argparse.ArgumentParser) -> None:
    action.description = (
        "Check arguments against the task of the app and let a quarantined job go on with them. "
        "Without any it is checked as it is stored. *** where a secret is masked keeps that secret."
    )
    action.add_argument(
        "args", metavar="ARGS", nargs="?", help="all arguments, as a JSON object; - reads them"
    )
    action.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="changes",
        help="change one argument, to JSON or a text; may be repeated",
    )  # fmt: skip
    action.add_argument(
        "--unset", action="append", default=[], metavar="NAME", help="take one argument out"
    )


def _show(arguments: argparse.Namespace) -> int:
    job = show_job(find_store(arguments), checked_id(arguments.id))
    if arguments.json:
        say_json(job)
        return 0
    facts = plain(job)
    for name in _FIRST:
        _line(name, facts[name])
    if job.why.kind is not Kind.FINISHED:
        _line("why", job.why.text)
    for name, value in facts.items():
        usual = value in (None, False, {}, [], ()) or (name, value) == ("payload_version", 1)
        if name not in _APART and not usual:
            _line(name, value["text"] if name == "error" else value)
    if job.error and (trace := job.error.traceback):
        say_block("traceback:", f"\n{trace}")
    _children(job.children)
    say("timeline:")
    for event in job.timeline:
        cause = f"  {event.cause.text}" if event.cause else ""
        holder = f"  session {event.session} token {event.token}" if event.session else ""
        say_block("", f"  {event.at}  {event.event:<16}{holder}{cause}")
    for line in job.log:
        say_block(f"  {line.at}  {line.level}: ", line.message)
    return 0


def _line(name: str, value: Any) -> None:
    text = printable_json(value) if isinstance(value, dict | list | tuple) else value
    say_block(f"{name + ':':<20}", text)


def _children(children: ChildrenAnswer | None) -> None:
    if children is None:
        return
    _line("children", ", ".join(f"{count} {state}" for state, count in children.counts.items()))
    for child in children.failed:
        error = f": {child.error.text}" if child.error else ""
        say(f"  {child.id}  {child.task} failed{error}")
    if (more := children.counts.get(State.FAILED, 0) - len(children.failed)) > 0:
        say(f"  … and {more} more; limpet jobs --parent ID --state failed lists them")


def _why(arguments: argparse.Namespace) -> int:
    reason = why_job(find_store(arguments), arguments.id)
    if arguments.json:
        say_json({"id": arguments.id, **plain(reason)})
    else:
        say(reason.text)
    return 0


def _retry(arguments: argparse.Namespace) -> int:
    store = find_store(arguments)
    round_ = retry_job(store, arguments.id)
    state = store.states([arguments.id]).get(arguments.id, State.READY)
    return _done(arguments, store, f"{arguments.id} is {state} again, in round {round_}")


def _cancel(arguments: argparse.Namespace) -> int:
    store = find_store(arguments)
    seen = store.job(checked_id(arguments.id))
    state = cancel_job(store, arguments.id, arguments.reason)
    relaunch = state is State.FAILED and seen is not None and seen.relaunch_at is not None
    if state is State.RUNNING:
        text = f"{arguments.id} is running; its worker was asked to stop it"
    elif state is State.CANCELLED:
        text = f"{arguments.id} is cancelled"
    elif relaunch:
        text = f"{arguments.id} has failed and will not be relaunched"
    else:
        text = f"{arguments.id} was already {state}; nothing changed"
    _done(arguments, store, text)
    return 0 if relaunch or state in (State.RUNNING, State.CANCELLED) else 1


def _repair(arguments: argparse.Namespace) -> int:
    app = find_app(arguments)
    store = app.client.store
    if arguments.changes or arguments.unset:
        if arguments.args is not None:
            raise InvalidOption("give all arguments as ARGS, or some with --set and --unset.")
        changes = dict(named_value(text) for text in arguments.changes)
        state = change_and_release(store, arguments.id, changes, arguments.unset, app)
    else:
        args = None if arguments.args is None else json_object(arguments.args)
        state = edit_and_release(store, arguments.id, args, app)
    return _done(arguments, store, f"{arguments.id} fits its task and is {state}")


def _done(arguments: argparse.Namespace, store: Store, text: str) -> int:
    if arguments.json:
        say_json(show_job(store, arguments.id))
    else:
        say(text)
    return 0
