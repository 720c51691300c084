"""How a command is found and explained: suggestions for misspelt words, help in sections."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from limpet.cli.terminal import is_coloured

# Settings of every command; the commands below a command inherit them.
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Command(TyperCommand):
    """A command without commands of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _of(ctx):
            return super().parse_args(ctx, args)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        _write_usage(self, ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)


class Group(TyperGroup):
    """A command with actions, or commands, of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _of(ctx):
            return super().parse_args(ctx, args)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        _write_usage(self, ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        _write_options(self, ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        heading = "Actions" if ctx.parent is not None else "Commands"
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            found: Any = self.get_command(ctx, name)
            rows = sections.setdefault(found.rich_help_panel or heading, [])
            rows.append((name, found.get_short_help_str(200)))
        # All sections are one table: their second columns begin at one place.
        widest = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
        for title, rows in sections.items():
            _write_section(formatter, title, [(f"{name:<{widest}}", text) for name, text in rows])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            near = _near(get_close_matches(args[0], self.list_commands(ctx)))
            ctx.fail(f"invalid choice: {args[0]!r} is no command of {ctx.command_path}{near}")
        return super().resolve_command(ctx, args)


@contextmanager
def _of(context: Any) -> Iterator[None]:
    """Add the command to an error that was raised without one."""
    try:
        yield
    except typer.TyperException as error:
        wrong: Any = error
        wrong.ctx = getattr(error, "ctx", None) or context
        raise


def usage_sentence(error: typer.TyperException) -> str:
    """What is wrong with a command line, and what to do, in one sentence."""
    text = error.format_message().rstrip(".")
    option: str | None = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        text = f"unrecognized arguments: {option}{_near(error.possibilities or ())}"
    context: Any = getattr(error, "ctx", None)
    path = "limpet" if context is None else context.command_path
    return f"{text[:1].lower()}{text[1:]}; see {path} --help."


def _near(words: Sequence[str]) -> str:
    return f" (did you mean {' or '.join(words)}?)" if words else ""


def _write_usage(command: Any, ctx: Any, formatter: Any) -> None:
    pieces = " ".join(map(_piece, command.collect_usage_pieces(ctx)))
    formatter.write_usage(ctx.command_path, pieces, prefix=f"{_heading('Usage')}: ")


def _piece(text: str) -> str:
    """A part of a usage line: {TASK} becomes TASK; what follows -- is not shown as optional."""
    if text.startswith("[-- "):
        return text[1:-1]
    return text.lower() if text == "[OPTIONS]" else text.strip("{}")


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """A section for each kind of options; the arguments first."""
    *params, helping = command.get_params(ctx)
    arguments = [param for param in params if param.param_type_name == "argument" and param.help]
    sections: dict[str, list[tuple[str, str]]] = {}
    for param in params:
        if param.param_type_name == "option":
            words, text = param.get_help_record(ctx)
            rows = sections.setdefault(param.rich_help_panel or "Options", [])
            # Texts of typer are whole sentences; ours are not.
            rows.append((words, text[:1].lower() + text[1:-1] if text.endswith(".") else text))
    last = sections.setdefault(next(reversed(sections), "Options"), [])
    last.append((helping.get_help_record(ctx)[0], "show this and exit"))
    if arguments:
        rows = [(param.make_metavar(ctx).strip("[]"), param.help) for param in arguments]
        _write_section(formatter, "Arguments", rows)
    for title, rows in sections.items():
        _write_section(formatter, title, rows)


def _write_section(formatter: Any, title: str, rows: Iterable[tuple[str, str]]) -> None:
    with formatter.section(_heading(title)):
        formatter.write_dl([(_term(name), text) for name, text in rows])


def _heading(text: str) -> str:
    return typer.style(text, bold=True, underline=True) if is_coloured() else text


def _term(text: str) -> str:
    return typer.style(text, fg="cyan", bold=True) if is_coloured() else text
