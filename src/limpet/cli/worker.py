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
from limpet.worker.plan import Plan

_TEXTS = (
    ("--name", "NAME", "how this worker is called (else the host's name)"),
    ("--lanes", "N", "how many def tasks run at once (else as many as there are cores)"),
    ("--async-jobs", "N", "how many async def tasks run at once (else 100)"),
    ("--lease", "TIME", "how long the store waits for a silent worker (else 10s)"),
    ("--drain", "TIME", "how long running jobs may go on after SIGTERM (else 25s)"),
    ("--grace", "TIME", "how long a job that was asked to stop may take (else 5s)"),
    ("--max-jobs", "N", "replace an executor after so many jobs"),
    ("--max-rss", "SIZE", "end an executor that holds more memory, as in 512MB"),
    ("--server-id", "NAME", "the name of this host at the gate (else the host's name)"),
    ("--gate-cpu", "PERCENT", "begin no weighted job where others use more of the CPU (else 80)"),
    ("--gate-memory", "PERCENT", "begin no weighted job above this use of the memory (else 90)"),
    (
        "--gate-pressure",
        "PERCENT",
        "nor while work waits for memory for so much of the time (else 10)",
    ),
    ("--gate-io", "PERCENT", "nor a heavy one while work waits for a disk so much (else 40)"),
    ("--gate-rise", "SHARE", "how fast the average of the CPU rises, above 0 to 1 (else 0.7)"),
    ("--gate-fall", "SHARE", "how slowly the average of the CPU falls (else 0.1)"),
)
_GATE = (
    "server_id", "gate_cpu", "gate_memory", "gate_pressure", "gate_io", "gate_rise", "gate_fall",
)  # fmt: skip


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "worker",
        help="run jobs",
        description="Run the jobs of an app until SIGTERM or Ctrl-C; a second one ends them at "
        "once. Jobs that are not finished are handed back, uncharged.",
    )
    parser.add_argument("target", nargs="?", metavar="MODULE:APP", help="the app (else LIMPET_APP)")
    parser.add_argument(
        "-q", "--queue", action="append", default=[], metavar="NAME[=N]", dest="queues",
        help="serve this queue, at most N of its jobs at once; may be repeated (else all queues)",
    )  # fmt: skip
    for name, metavar, text in _TEXTS:
        parser.add_argument(name, metavar=metavar, help=text)
    parser.add_argument(
        "--burst", action="store_true", default=None, help="stop when nothing is ready to run"
    )
    parser.add_argument(
        "--reload", action="store_true", default=None, help="start anew when the code changes"
    )
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
    os.execve(sys.executable, [*processes.BEGIN, "limpet.worker.guardian"], environment)


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
    names = (
        "name", "queues", "lanes", "async_jobs", "lease", "drain", "grace", "max_jobs", "max_rss",
        "burst", "reload", *_GATE,
    )  # fmt: skip
    found = settings.load_worker(given={name: getattr(arguments, name) for name in names})
    level = "debug" if arguments.verbose else "warning" if arguments.quiet else "info"
    return Plan(
        app=app,
        url=arguments.url,
        name=found.name or socket.gethostname(),
        queues=dict(found.queues),
        lanes=found.lanes,
        async_jobs=found.async_jobs,
        lease=found.lease.total_seconds(),
        drain=found.drain.total_seconds(),
        grace=found.grace.total_seconds(),
        max_jobs=found.max_jobs,
        max_rss=found.max_rss,
        pid_namespace=found.pid_namespace,
        burst=found.burst,
        reload=found.reload,
        **{name: getattr(found, name) for name in _GATE},
        log_level=level,
        debug=arguments.debug,
        log_style=arguments.log or ("pretty" if sys.stderr.isatty() else "plain"),
    )
