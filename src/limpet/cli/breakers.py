"""`limpet breakers`: what holds the work of some tasks back."""

from typing import Annotated

import typer

from limpet.cli.command import command, group, without_action
from limpet.cli.output import ago, say, say_json, show_table
from limpet.cli.style import Column, Style, text
from limpet.cli.target import Common, find_store
from limpet.domain.breaker import BreakerState
from limpet.ops.breakers import list_breakers, reset_breaker

_COLUMNS = (
    Column("BREAKER", 9, least=8),
    Column("STATE", 8),
    Column("FAILED", 7, right=True),
    Column("SUCCEEDED", 6, right=True),
    Column("OPENS AT", 3),
    Column("OPENED", 4),
    Column("TRIES", 5),
    Column("TASKS", 2, least=10),
)

app = group(runs_alone=True)


@without_action(app, "List the circuit breakers with what they saw. With reset, close one by hand.")
def show(common: Common) -> int:
    """List the breakers."""
    breakers = list_breakers(find_store(common))
    if common.json:
        say_json(breakers)
    elif not breakers:
        say("no breakers")
    else:
        rows = [
            (
                text(each.breaker),
                text(each.state, Style.PLAIN if each.state == BreakerState.CLOSED else Style.BAD),
                text(each.failed),
                text(each.succeeded),
                text(f"{each.failure_rate:.0%} of {each.least} or more"),
                text(ago(each.opened_at) or "-"),
                text(ago(each.probe_at) or "-"),
                text(", ".join(each.tasks)),
            )
            for each in breakers
        ]
        show_table(_COLUMNS, rows)
    return 0


@command(
    app,
    "reset",
    "close a breaker",
    about="Close a breaker, so that the work of its tasks goes on at once.",
)
def reset(name: Annotated[str, typer.Argument(metavar="NAME")], common: Common) -> int:
    """Close one."""
    store = find_store(common)
    reset_breaker(store, name)
    if common.json:
        say_json(next(each for each in list_breakers(store) if each.breaker == name))
    else:
        say(f"breaker {name} is closed")
    return 0
