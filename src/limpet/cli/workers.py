"""`limpet workers`: list the workers, with how many jobs each holds."""

from typing import Annotated

import typer
from rich.text import Text

from limpet.cli.command import command, group
from limpet.cli.output import ago, print_json, print_line, show_table
from limpet.cli.style import Column, Style, text
from limpet.cli.target import Common, find_store
from limpet.domain.session import SessionState
from limpet.ops.inspect import SessionAnswer, list_sessions

_STATES = {SessionState.LIVE: Style.GOOD, SessionState.DRAINING: Style.WARN}
_COLUMNS = (
    Column("SESSION", 10),
    Column("NAME", 9, least=8),
    Column("HOST", 4, least=8),
    Column("PID", 3, right=True),
    Column("STATE", 8),
    Column("HOLDS", 7, right=True),
    Column("LAST HEARD", 6),
    Column("CAUSE", 5, least=12),
)

app = group()


@command(app, "workers", "list workers by session")
def show(
    common: Common,
    with_dead: Annotated[bool, typer.Option("--all", help="dead sessions too")] = False,
) -> int:
    """Print the sessions."""
    sessions = list_sessions(find_store(common), with_dead)
    if common.json:
        print_json(sessions)
    elif not sessions:
        print_line("no workers")
    else:
        rows = [
            (
                text(session.session),
                text(session.name),
                text(session.host),
                text(session.pid),
                _state(session),
                text(session.holds),
                text(ago(session.renewed_at) or "-"),
                text(_remark(session) or "-"),
            )
            for session in sessions
        ]
        show_table(_COLUMNS, rows)
    return 0


def _state(session: SessionAnswer) -> Text:
    if session.overdue:
        return text(f"{session.state} (overdue)", Style.BAD)
    return text(session.state, _STATES.get(session.state, Style.FAINT))


def _remark(session: SessionAnswer) -> str | None:
    """Why the session ended, or which fields of its row cannot be read."""
    if session.unreadable:
        return f"unreadable: {', '.join(session.unreadable)}"
    return session.cause.text if session.cause else None
