"""`limpet enqueue`: hand in a job by hand."""

import argparse
import json
import sys
from typing import Any

from limpet.cli.output import say, say_json
from limpet.cli.target import add_target, find_app
from limpet.domain.errors import InvalidOption
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
    add_target(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the arguments against the task and enqueue."""
    app = find_app(arguments)
    names = ("queue", "priority", "delay", "expires", "deadline")
    options = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    task = app.find(arguments.task).using(**options)
    job = app.enqueue_many([task.call(**_object(arguments.args))])[0]
    if arguments.json:
        say_json(show_job(app.client.store, job.id))
    else:
        say(f"{job.id}  {task.name} is {job.state} on queue {task.options.queue}")
    return 0


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"the arguments are not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise InvalidOption(
            'the arguments are JSON but not an object; name them, as in \'{"to": "a@b.c"}\'.'
        )
    return value
