"""`limpet`: reads the command line, runs a command, prints an error as one sentence."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
import typer.main

import limpet
from limpet.cli.command import WRONG_USAGE, flushed
from limpet.cli.help import SETTINGS, Command, Group, usage_sentence
from limpet.cli.output import complain
from limpet.cli.terminal import print_in_any_encoding
from limpet.host.arguments import hide_credentials
from limpet.host.streams import open_missing


class _Entry(NamedTuple):
    """The module of a command, and its line in the list of commands."""

    place: str
    section: str
    text: str


_WORK, _JOBS, _RULES, _STORE = "Run jobs", "Jobs", "Queues and rules", "Workers, hosts and stores"

# A command is loaded when it is called: `limpet --help` loads none of them.
_COMMANDS = {
    "demo": _Entry("demo:app", _WORK, "kill a worker and watch the recovery, in half a minute"),
    "worker": _Entry("worker:app", _WORK, "run jobs"),
    "top": _Entry("top:app", _WORK, "watch workers, queues and running jobs live"),
    "enqueue": _Entry("enqueue:app", _JOBS, "hand in a job"),
    "jobs": _Entry("jobs:app", _JOBS, "list jobs, newest first; retry, discard or move many"),
    "job": _Entry("job:app", _JOBS, "show, explain, retry, cancel or repair one job"),
    "quarantine": _Entry(
        "quarantine:app", _JOBS, "list jobs whose arguments do not fit, let them go on"
    ),
    "queues": _Entry(
        "queues:app",
        _RULES,
        "list queues with the number of jobs by state; pause, drain, limit or hold one",
    ),
    "keys": _Entry("keys:app", _RULES, "limit the jobs of one key"),
    "breakers": _Entry("breakers:app", _RULES, "list circuit breakers, or close one"),
    "schedules": _Entry(
        "schedules:app", _RULES, "list schedules; show, pause, resume, trigger or remove one"
    ),
    "workers": _Entry("workers:app", _STORE, "list workers by session"),
    "hosts": _Entry(
        "hosts:app", _STORE, "show what hosts carry and have room for, or one of them in detail"
    ),
    "gate": _Entry(
        "gate:app", _STORE, "show whether this host has room, or run a command when it has"
    ),
    "migrate": _Entry("store:migrate_app", _STORE, "make the store, or bring it up to date"),
    "fsck": _Entry("store:fsck_app", _STORE, "check the invariants; exit 1 if one is broken"),
    "move": _Entry("move:app", _STORE, "take everything from one store to another"),
}


class _CommandLine(Group):
    """The commands by name; lists and completions use only the table above, and load nothing."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Command | None:
        if (entry := _COMMANDS.get(cmd_name)) is None:
            return None
        return Command(cmd_name, short_help=entry.text, rich_help_panel=entry.section)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and _loaded(args[0]), rest


def _loaded(name: str) -> Any:
    module, _, attribute = _COMMANDS[name].place.partition(":")
    return typer.main.get_command(getattr(import_module(f"limpet.cli.{module}"), attribute))


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"limpet {limpet.__version__}")
        raise typer.Exit


def command_line() -> Any:
    """The whole command line."""
    app = typer.Typer(
        cls=_CommandLine,
        help="Durable jobs that cannot be orphaned.",
        epilog="Exit codes: 0 done, 1 something is wrong with what was looked at, 2 wrong usage.",
        context_settings=SETTINGS,
        subcommand_metavar="COMMAND",
        rich_markup_mode=None,
    )

    @app.callback()
    def whole(
        version: Annotated[
            bool,
            typer.Option(
                "--version", callback=_print_version, is_eager=True, help="print the version"
            ),
        ] = False,
    ) -> None: ...

    return typer.main.get_command(app)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the answer is the exit code."""
    hide_credentials()
    missing = open_missing()
    print_in_any_encoding()
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        code = command_line().main(words, "limpet", standalone_mode=False, obj=missing)
    except typer.TyperException as error:
        complain(usage_sentence(error))
        code = WRONG_USAGE
    except KeyboardInterrupt:
        code = 130
    return flushed(code or 0)


if __name__ == "__main__":
    sys.exit(main())
