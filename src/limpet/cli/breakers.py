"""`limpet breakers`: what holds the work of some tasks back."""

import argparse
from typing import Any

from limpet.cli.output import ago, say, say_json, table
from limpet.cli.target import add_target, find_store
from limpet.ops.breakers import list_breakers, reset_breaker


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "breakers",
        help="list circuit breakers, or close one",
        description="List the circuit breakers with what they saw. With reset, close one by hand.",
    )
    add_target(parser)
    parser.set_defaults(run=_list)
    actions = parser.add_subparsers(dest="action", metavar="[ACTION]")
    reset = actions.add_parser(
        "reset",
        help="close a breaker",
        description="Close a breaker, so that the work of its tasks goes on at once.",
    )
    reset.add_argument("name", metavar="NAME")
    add_target(reset, under=True)
    reset.set_defaults(run=_reset)


def _list(arguments: argparse.Namespace) -> int:
    breakers = list_breakers(find_store(arguments))
    if arguments.json:
        say_json(breakers)
    elif not breakers:
        say("no breakers")
    else:
        rows = [
            (
                each.breaker,
                each.state,
                each.failed,
                each.succeeded,
                f"{each.failure_rate:.0%} of {each.least} or more",
                ago(each.opened_at),
                ago(each.probe_at),
                ", ".join(each.tasks),
            )
            for each in breakers
        ]
        table(
            ("BREAKER", "STATE", "FAILED", "SUCCEEDED", "OPENS AT", "OPENED", "TRIES", "TASKS"),
            rows,
        )
    return 0


def _reset(arguments: argparse.Namespace) -> int:
    store = find_store(arguments)
    reset_breaker(store, arguments.name)
    if arguments.json:
        say_json(next(each for each in list_breakers(store) if each.breaker == arguments.name))
    else:
        say(f"breaker {arguments.name} is closed")
    return 0
