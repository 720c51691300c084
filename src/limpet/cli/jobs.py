"""`limpet jobs` and `limpet job`: look at jobs, cancel them, run them again."""

import argparse
from typing import Any

from limpet.cli.output import ago, say, say_json, shortened, table
from limpet.cli.target import add_target, find_store
from limpet.domain.ids import checked_id
from limpet.domain.job import JobFilter
from limpet.domain.queue import checked_name
from limpet.domain.state import State
from limpet.ops.control import cancel_job, retry_job
from limpet.ops.inspect import list_jobs, show_job


def add(commands: Any) -> None:
    """Add the commands to the command line."""
    many = commands.add_parser("jobs", help="list jobs, newest first")
    many.add_argument("--state", choices=[state.value for state in State], metavar="STATE")
    many.add_argument("--queue")
    many.add_argument("--task")
    many.add_argument("--limit", type=_count, default=50, help="how many (50)")
    many.add_argument("--cursor", help="go on where the last page ended")
    add_target(many)
    many.set_defaults(run=_list)
    one = commands.add_parser("job", help="show, retry or cancel one job")
    actions = one.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, run, text in (
        ("show", _show, "everything about a job, with its timeline"),
        ("retry", _retry, "run a finished job again, in a new round"),
        ("cancel", _cancel, "cancel a job; a running one is asked to stop"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("id", metavar="ID")
        if name == "cancel":
            action.add_argument("--reason", default="", help="kept on the job's timeline")
        add_target(action)
        action.set_defaults(run=run)


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= 1000:
        raise argparse.ArgumentTypeError("write a number from 1 to 1000")
    return number


def _list(arguments: argparse.Namespace) -> int:
    state = State(arguments.state) if arguments.state else None
    queue = arguments.queue and checked_name(arguments.queue)
    task = arguments.task and checked_name(arguments.task, "task")
    which = JobFilter(state, queue, task)
    jobs, cursor = list_jobs(find_store(arguments), which, arguments.cursor, arguments.limit)
    if arguments.json:
        say_json({"jobs": jobs, "cursor": cursor})
        return 0
    rows = [
        (
            job["id"],
            job["task"],
            job["queue"],
            job["state"],
            ago(job["created_at"]),
            job["failures"],
            job["orphans"],
            _remark(job),
        )
        for job in jobs
    ]
    if not rows:
        say("no jobs")
        return 0
    table(("ID", "TASK", "QUEUE", "STATE", "ENQUEUED", "FAILURES", "ORPHANS", "REMARK"), rows)
    if cursor:
        say(f"more: --cursor {cursor}")
    return 0


def _remark(job: dict[str, Any]) -> str:
    if job["state"] == "scheduled":
        return f"due {ago(job['ready_at'])}" + (_why(job) and f", after {_why(job)}")
    if job["state"] == "running" and job["cancel_requested_at"]:
        return "cancel requested"
    if job["blocked_by"]:
        return str(job["blocked_by"])
    return _why(job)


def _why(job: dict[str, Any]) -> str:
    return shortened(job["error"]["text"], 60) if job["error"] else ""


def _show(arguments: argparse.Namespace) -> int:
    job = show_job(find_store(arguments), checked_id(arguments.id))
    if arguments.json:
        say_json(job)
        return 0
    hidden = {"timeline", "log"}
    for name, value in job.items():
        if name not in hidden and value not in (None, False, {}):
            text = value["text"] if name == "error" else value
            say(f"{name + ':':<16}{text}")
    say("timeline:")
    for event in job["timeline"]:
        cause = f"  {event['cause']['text']}" if event["cause"] else ""
        holder = f"  session {event['session']} token {event['token']}" if event["session"] else ""
        say(f"  {event['at']}  {event['event']:<16}{holder}{cause}".rstrip())
    for line in job["log"]:
        say(f"  {line['at']}  {line['level']}: {line['message']}")
    return 0


def _retry(arguments: argparse.Namespace) -> int:
    store = find_store(arguments)
    round_ = retry_job(store, arguments.id)
    return _done(arguments, store, f"{arguments.id} is ready again, in round {round_}")


def _cancel(arguments: argparse.Namespace) -> int:
    store = find_store(arguments)
    state = cancel_job(store, arguments.id, arguments.reason)
    if state is State.RUNNING:
        text = f"{arguments.id} is running; its worker was asked to stop it"
    elif state is State.CANCELLED:
        text = f"{arguments.id} is cancelled"
    else:
        text = f"{arguments.id} was already {state}; nothing changed"
    _done(arguments, store, text)
    return 0 if state in (State.RUNNING, State.CANCELLED) else 1


def _done(arguments: argparse.Namespace, store: Any, text: str) -> int:
    if arguments.json:
        say_json(show_job(store, arguments.id))
    else:
        say(text)
    return 0
