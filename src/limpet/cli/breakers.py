"""`limpet breakers`: list the circuit breakers, and close one."""

from typing import Annotated

import typer

from limpet.cli.command import command, group, without_action
from limpet.cli.output import ago, print_json, print_line, show_table
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


@without_action(
    app, "List the circuit breakers with what they counted. With reset, close one by hand."
)
def show(common: Common) -> int:
    """List the breakers."""
    breakers = list_breakers(find_store(common))
    if common.json:
        print_json(breakers)
    elif not breakers:
        print_line("no breakers")
    else:
        rows = [
            (
                text(breaker.breaker),
                text(
                    breaker.state,
                    Style.PLAIN if breaker.state == BreakerState.CLOSED else Style.BAD,
                ),
                text(breaker.failed),
                text(breaker.succeeded),
                text(f"{breaker.failure_rate:.0%} of {breaker.least} or more"),
                text(ago(breaker.opened_at) or "-"),
                text(ago(breaker.probe_at) or "-"),
                text(", ".join(breaker.tasks)),
            )
            for breaker in breakers
        ]
        show_table(_COLUMNS, rows)
    return 0


@command(
    app,
    "reset",
    "close a breaker",
    about="Close a breaker: jobs of its tasks may begin again at once.",
)
def reset(name: Annotated[str, typer.Argument(metavar="NAME")], common: Common) -> int:
    """Close a breaker."""
    store = find_store(common)
    reset_breaker(store, name)
    if common.json:
        print_json(next(breaker for breaker in list_breakers(store) if breaker.breaker == name))
    else:
        print_line(f"breaker {name} is closed")
    return 0
