"""What every command has: options shared with others, errors as sentences, and an exit code.

A parameter that is annotated with a dataclass stands for all fields of that dataclass: each field
is an option of the command, and the function receives the dataclass with the values.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

import typer

from limpet.cli.help import Command, Group
from limpet.cli.output import CannotPrint, complain
from limpet.domain.errors import InvalidOption, LimpetError, PayloadInvalid, UnknownTask
from limpet.host.shortage import is_lack, sentence_of
from limpet.host.streams import discard

DONE, NOT_WELL, WRONG_USAGE = 0, 1, 2

_USAGE_ERRORS = (InvalidOption, PayloadInvalid, UnknownTask)

Run = TypeVar("Run", bound=Callable[..., int])


def group(text: str = "", *, runs_alone: bool = False) -> typer.Typer:
    """An app of one command, or of a command with actions.

    `runs_alone`: the command also runs without an action.
    """
    return typer.Typer(
        cls=Group,
        help=text,
        add_completion=False,
        invoke_without_command=runs_alone,
        subcommand_metavar="[ACTION]" if runs_alone else "ACTION",
        rich_markup_mode=None,
    )


def command(
    app: typer.Typer,
    name: str = "",
    text: str = "",
    *,
    about: str = "",
    epilog: str | None = None,
    prints: bool = True,
    takes_words: bool = False,
) -> Callable[[Run], Run]:
    """Add a command; `text` is its line in lists, `about` its longer help, where it has one.

    `prints`: the output is the purpose of the command, so a closed standard output is an error.
    `takes_words`: every word after the first belongs to the program that the command runs.
    """

    def add(run: Run) -> Run:
        settings: dict[Any, Any] = {"allow_interspersed_args": False} if takes_words else {}
        app.command(
            name or None,
            cls=Command,
            help=about or f"{text[:1].upper()}{text[1:]}.",
            short_help=text,
            epilog=epilog,
            context_settings=settings,
        )(_callback(run, prints=prints))
        return run

    return add


def without_action(app: typer.Typer, about: str) -> Callable[[Run], Run]:
    """Add what a command does without an action; its actions take the same options."""

    def add(run: Run) -> Run:
        app.callback(help=about)(_callback(run, prints=True))
        return run

    return add


def _callback(run: Callable[..., int], *, prints: bool) -> Callable[..., int]:
    """The function that typer calls: it takes the fields of all dataclasses one by one."""
    parameters = inspect.signature(run).parameters

    def call(context: typer.Context, **given: Any) -> int:
        if context.invoked_subcommand is not None:
            _hand_down(context)
            return DONE
        words = {
            name: _gathered(parameter.annotation, name, given)
            for name, parameter in parameters.items()
        }
        closed = prints and "stdout" in (context.obj or ())
        return answer(lambda: _run(run, words, closed=closed), debug=given["debug"])

    options = [
        _context,
        *(option for parameter in parameters.values() for option in _options(parameter)),
    ]
    call.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    call.__name__, call.__doc__ = run.__name__, run.__doc__
    return call


_context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def _options(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The parameter itself, or the fields of its dataclass."""
    if not is_dataclass(parameter.annotation):
        return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    return [
        inspect.Parameter(
            option_field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty
            if option_field.default is MISSING
            else option_field.default,
            annotation=option_field.type,
        )
        for option_field in fields(parameter.annotation)
    ]


def _gathered(annotation: Any, name: str, given: Mapping[str, Any]) -> Any:
    if not is_dataclass(annotation):
        return given[name]
    made: Any = annotation
    return made(
        **{option_field.name: given[option_field.name] for option_field in fields(annotation)}
    )


def _hand_down(context: typer.Context) -> None:
    """Make the options written before an action the defaults of the action."""
    assert context.invoked_subcommand is not None
    words = {name: value for name, value in context.params.items() if value not in (None, False)}
    context.default_map = {context.invoked_subcommand: words}


def _run(run: Callable[..., int], words: Mapping[str, Any], *, closed: bool) -> int:
    if closed:
        raise InvalidOption(
            "standard output is closed, so that nothing could be printed; send it somewhere, "
            "such as >/dev/null."
        )
    return run(**words)


def answer(run: Callable[[], int], *, debug: bool) -> int:
    """Run a command; an error is printed as one sentence, unless it is a defect or `debug`."""
    try:
        return run()
    except LimpetError as error:
        if debug:
            raise
        complain(error)
        return WRONG_USAGE if isinstance(error, _USAGE_ERRORS) else NOT_WELL
    except BrokenPipeError:
        return DONE  # the reader of our output is gone, so nobody would see an error
    except CannotPrint as error:
        return _cannot_print(error.error)
    except Exception as error:
        if debug or not is_lack(error):
            raise
        complain(sentence_of(error))
        return WRONG_USAGE


def flushed(code: int) -> int:
    """The exit code, once all that was printed has been written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard("stdout")
    except OSError as error:
        return _cannot_print(error)
    return code


def _cannot_print(error: OSError) -> int:
    complain(f"standard output cannot be written: {sentence_of(error)}")
    discard("stdout")
    return WRONG_USAGE
