"""`limpet worker`: run the jobs of an app."""

import os
import socket
import sys
from dataclasses import asdict, dataclass, field, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from limpet import settings
from limpet.cli.command import command, group
from limpet.cli.target import Target
from limpet.domain.errors import InvalidOption
from limpet.host import processes
from limpet.host.shortage import too_little_for_a_worker
from limpet.storage.registry import open_store
from limpet.worker.wire.plan import Plan


def _field(option: settings.WorkerOption) -> tuple[str, Any, Any]:
    """A setting as an option of the command line."""
    kind: Any = bool if option.metavar is None else list[str] if option.repeats else str
    section = "The gate" if option.name.startswith(("gate_", "server_id")) else None
    made = typer.Option(
        *option.flags, metavar=option.metavar, help=option.help, rich_help_panel=section
    )
    if option.metavar is None:
        return option.name, Annotated[kind, made], field(default=False)
    return option.name, Annotated[kind | None, made], field(default=None)


if TYPE_CHECKING:
    Given = Any
else:
    # Settings given on the command line; `limpet.settings` checks them with those of other sources.
    Given = make_dataclass("Given", map(_field, settings.worker_options()), frozen=True)


@dataclass(frozen=True, slots=True)
class Logging:
    """How the log looks, and what is logged."""

    log: Annotated[
        Literal["pretty", "plain", "json"] | None,
        typer.Option("--log", metavar="HOW", help="pretty, plain or json (else as fits)"),
    ] = None
    verbose: Annotated[bool, typer.Option("--verbose", help="log more")] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="log warnings and errors only")] = False

    @property
    def level(self) -> str:
        """The lowest level that is logged."""
        return "debug" if self.verbose else "warning" if self.quiet else "info"


app = group()


@command(
    app,
    "worker",
    "run jobs",
    about="Run the jobs of an app until SIGTERM or Ctrl-C; a second one ends them at once. Jobs "
    "that are not finished are handed back, and that charges them nothing.",
    prints=False,
)
def worker(
    given: Given,
    logging: Logging,
    target: Target,
    app_name: Annotated[
        str | None, typer.Argument(metavar="MODULE:APP", help="the app (else LIMPET_APP)")
    ] = None,
) -> int:
    """Become the worker."""
    if not processes.SUPPORTED:
        raise InvalidOption(
            f"a worker cannot keep its promises on {sys.platform}: it needs Linux, or macOS for "
            f"development. Handing in jobs and looking at them works here."
        )
    if (lacking := too_little_for_a_worker()) is not None:
        raise InvalidOption(lacking)
    become(plan_of(app_name or target.app, given, logging, target))
    return 0


def become(plan: Plan) -> None:
    """Replace this program, in the same process, by the guardian of the worker."""
    processes.hold_signals()
    environment = {**os.environ, **plan.environment()}
    os.execve(sys.executable, [*processes.BEGIN, "limpet.worker.guardian.guardian"], environment)


def plan_of(name: str | None, given: Given, logging: Logging, target: Target) -> Plan:
    """The plan of a worker, from the command line, the environment and the file; checked."""
    app = settings.load(app=name).app
    if app is None:
        raise InvalidOption(
            "which app? Write limpet worker module:app, set LIMPET_APP, or write "
            'app = "module:app" into limpet.toml.'
        )
    if target.url is not None:
        open_store(target.url).close()
    # A switch that was not written counts as not given, not as false.
    words = {name: None if value is False else value for name, value in asdict(given).items()}
    found = settings.load_worker(given=words)
    return Plan(
        app=app,
        url=target.url,
        name=found.name or socket.gethostname(),
        settings=found,
        log_level=logging.level,
        debug=target.debug,
        log_style=logging.log or ("pretty" if sys.stderr.isatty() else "plain"),
    )
