"""`limpet queues`: how many jobs are where."""

import argparse
from typing import Any

from limpet.cli.output import ago, say, say_json, table
from limpet.cli.target import add_target, find_store
from limpet.domain.state import State
from limpet.ops.inspect import list_queues


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("queues", help="list queues with the number of jobs by state")
    add_target(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the queues."""
    queues = list_queues(find_store(arguments))
    if arguments.json:
        say_json(queues)
    elif not queues:
        say("no queues")
    else:
        states = [state.value for state in State]
        head = ("QUEUE", *(state.upper() for state in states), "HEAD READY")
        rows = [
            (
                queue["queue"] + (" (paused)" if queue["paused"] else ""),
                *(queue[state] for state in states),
                ago(queue["head_ready_at"]),
            )
            for queue in queues
        ]
        table(head, rows)
    return 0
