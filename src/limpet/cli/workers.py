"""`limpet workers`: who holds jobs."""

import argparse
from typing import Any

from limpet.cli.output import ago, say, say_json, table
from limpet.cli.target import add_target, find_store
from limpet.ops.inspect import SessionAnswer, list_sessions


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("workers", help="list workers by session")
    parser.add_argument("--all", action="store_true", help="dead sessions too")
    add_target(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the sessions."""
    sessions = list_sessions(find_store(arguments), arguments.all)
    if arguments.json:
        say_json(sessions)
    elif not sessions:
        say("no workers")
    else:
        head = ("SESSION", "NAME", "HOST", "PID", "STATE", "HOLDS", "LAST HEARD", "CAUSE")
        rows = [
            (
                each.session,
                each.name,
                each.host,
                each.pid,
                each.state + (" (overdue)" if each.overdue else ""),
                each.holds,
                ago(each.renewed_at),
                _remark(each),
            )
            for each in sessions
        ]
        table(head, rows)
    return 0


def _remark(session: SessionAnswer) -> str | None:
    """Why it ended, or what of its row cannot be read."""
    if session.unreadable:
        return f"unreadable: {', '.join(session.unreadable)}"
    return session.cause.text if session.cause else None
