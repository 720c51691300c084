"""`limpet worker`: run the jobs of an app."""

import argparse
import os
import socket
import sys
from typing import Any

from limpet import settings
from limpet.cli.target import add_target
from limpet.domain.errors import InvalidOption
from limpet.host import processes
from limpet.host.shortage import too_little_for_a_worker
from limpet.storage.registry import open_store
from limpet.worker.wire.plan import Plan


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "worker",
        help="run jobs",
        description="Run the jobs of an app until SIGTERM or Ctrl-C; a second one ends them at "
        "once. Jobs that are not finished are handed back, uncharged.",
    )
    parser.add_argument("target", nargs="?", metavar="MODULE:APP", help="the app (else LIMPET_APP)")
    for option in settings.worker_options():
        more: dict[str, Any] = {"dest": option.name, "help": option.help, "default": None}
        if option.metavar is None:
            more["action"] = "store_true"
        else:
            more["metavar"] = option.metavar
        if option.repeats:
            more["action"] = "append"
        parser.add_argument(*option.flags, **more)
    parser.add_argument("--log", choices=("pretty", "plain", "json"), help="how the log looks")
    parser.add_argument("--verbose", action="store_true", help="log more")
    parser.add_argument("--quiet", action="store_true", help="log warnings and errors only")
    add_target(parser, json=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Become the worker: the same process goes on as its guardian."""
    if not processes.SUPPORTED:
        raise InvalidOption(
            f"a worker cannot keep its promises on {sys.platform}: it needs Linux, or macOS for "
            f"development. Handing in jobs and looking at them works here."
        )
    if (lacking := too_little_for_a_worker()) is not None:
        raise InvalidOption(lacking)
    plan = plan_of(arguments)
    processes.hold_signals()
    environment = {**os.environ, **plan.environment()}
    os.execve(sys.executable, [*processes.BEGIN, "limpet.worker.guardian.guardian"], environment)


def plan_of(arguments: argparse.Namespace) -> Plan:
    """What the command line, the variables and the file ask for, checked."""
    app = settings.load(app=arguments.target or arguments.app).app
    if app is None:
        raise InvalidOption(
            "which app? Write limpet worker module:app, set LIMPET_APP, or write "
            'app = "module:app" into limpet.toml.'
        )
    if arguments.url is not None:
        open_store(arguments.url).close()
    given = {each.name: getattr(arguments, each.name) for each in settings.worker_options()}
    found = settings.load_worker(given=given)
    level = "debug" if arguments.verbose else "warning" if arguments.quiet else "info"
    return Plan(
        app=app,
        url=arguments.url,
        name=found.name or socket.gethostname(),
        settings=found,
        log_level=level,
        debug=arguments.debug,
        log_style=arguments.log or ("pretty" if sys.stderr.isatty() else "plain"),
    )
