"""`limpet enqueue`: hand in a job by hand."""

import argparse
from typing import Any

from limpet.cli.json_input import json_object
from limpet.cli.output import say, say_json
from limpet.cli.target import add_target, find_app
from limpet.ops.inspect import show_job


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("enqueue", help="hand in a job")
    parser.add_argument("task", metavar="TASK", help="the task's name")
    parser.add_argument(
        "args", metavar="ARGS", nargs="?", default="{}", help="a JSON object; - reads it from input"
    )
    parser.add_argument("--queue", help="another queue than the task's")
    parser.add_argument("--priority", type=int, help="higher is sooner")
    parser.add_argument("--delay", help="not before, as in 10m")
    parser.add_argument("--expires", help="dropped if not started by then, as in 1h")
    parser.add_argument("--deadline", help="all attempts together end by then, as in 2h")
    parser.add_argument("--key", help="one at a time of those with this key, as in customer:42")
    parser.add_argument("--unique", help="not while another job of the task has it")
    add_target(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the arguments against the task and enqueue."""
    app = find_app(arguments)
    names = ("queue", "priority", "delay", "expires", "deadline", "key", "unique")
    options = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    task = app.find(arguments.task).using(**options)
    job = app.enqueue_many([task.call(**json_object(arguments.args))])[0]
    if arguments.json:
        say_json(show_job(app.client.store, job.id))
    else:
        there = "" if job.accepted else "; it was there before, and nothing was handed in"
        say(f"{job.id}  {task.name} is {job.state} on queue {task.options.queue}{there}")
    return 0
