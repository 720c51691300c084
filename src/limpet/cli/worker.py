"""`limpet worker`: run the jobs of an app."""

import os
import socket
import sys
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

import typer

from limpet import settings
from limpet.cli.command import command, group
from limpet.cli.target import Target
from limpet.domain.errors import InvalidOption
from limpet.host import processes
from limpet.host.shortage import too_little_for_a_worker
from limpet.storage.registry import open_store
from limpet.worker.plan import Plan


def _option(name: str, metavar: str, text: str) -> Any:
    section = "The gate" if name.startswith(("--gate", "--server")) else None
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel=section)


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set of a worker; checked where the variables and the file are, too."""

    queues: Annotated[
        list[str] | None,
        typer.Option(
            "-q", "--queue", metavar="NAME[=N]",
            help="serve this queue, at most N of its jobs at once; may be repeated (else all)",
        ),
    ] = None  # fmt: skip
    name: Annotated[
        str | None,
        _option("--name", "NAME", "how this worker is called (else the host's name)"),
    ] = None
    lanes: Annotated[
        str | None,
        _option("--lanes", "N", "how many def tasks run at once (else as many as there are cores)"),
    ] = None
    async_jobs: Annotated[
        str | None,
        _option("--async-jobs", "N", "how many async def tasks run at once (else 100)"),
    ] = None
    lease: Annotated[
        str | None,
        _option("--lease", "TIME", "how long the store waits for a silent worker (else 10s)"),
    ] = None
    drain: Annotated[
        str | None,
        _option("--drain", "TIME", "how long running jobs may go on after SIGTERM (else 25s)"),
    ] = None
    grace: Annotated[
        str | None,
        _option("--grace", "TIME", "how long a job that was asked to stop may take (else 5s)"),
    ] = None
    max_jobs: Annotated[
        str | None,
        _option("--max-jobs", "N", "replace an executor after so many jobs"),
    ] = None
    max_rss: Annotated[
        str | None,
        _option("--max-rss", "SIZE", "end an executor that holds more memory, as in 512MB"),
    ] = None
    server_id: Annotated[
        str | None,
        _option("--server-id", "NAME", "the name of this host at the gate (else the host's name)"),
    ] = None
    gate_cpu: Annotated[
        str | None,
        _option(
            "--gate-cpu",
            "PERCENT",
            "begin no weighted job where others use more of the CPU (else 80)",
        ),
    ] = None
    gate_memory: Annotated[
        str | None,
        _option(
            "--gate-memory",
            "PERCENT",
            "begin no weighted job above this use of the memory (else 90)",
        ),
    ] = None
    gate_pressure: Annotated[
        str | None,
        _option(
            "--gate-pressure",
            "PERCENT",
            "nor while work waits for memory for so much of the time (else 10)",
        ),
    ] = None
    gate_io: Annotated[
        str | None,
        _option(
            "--gate-io",
            "PERCENT",
            "nor a heavy one while work waits for a disk so much (else 40)",
        ),
    ] = None
    gate_rise: Annotated[
        str | None,
        _option(
            "--gate-rise",
            "SHARE",
            "how fast the average of the CPU rises, above 0 to 1 (else 0.7)",
        ),
    ] = None
    gate_fall: Annotated[
        str | None,
        _option("--gate-fall", "SHARE", "how slowly the average of the CPU falls (else 0.1)"),
    ] = None
    burst: Annotated[bool, typer.Option("--burst", help="stop when nothing is ready to run")] = (
        False
    )
    reload: Annotated[bool, typer.Option("--reload", help="start anew when the code changes")] = (
        False
    )


_GATE = tuple(
    each.name for each in fields(Settings) if each.name.startswith(("server_id", "gate_"))
)


@dataclass(frozen=True, slots=True)
class Logging:
    """How the log looks."""

    log: Annotated[
        Literal["pretty", "plain", "json"] | None,
        typer.Option("--log", metavar="HOW", help="pretty, plain or json (else as fits)"),
    ] = None
    verbose: Annotated[bool, typer.Option("--verbose", help="log more")] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="log warnings and errors only")] = False

    @property
    def level(self) -> str:
        """From which level on lines are logged."""
        return "debug" if self.verbose else "warning" if self.quiet else "info"


app = group()


@command(
    app,
    "worker",
    "run jobs",
    about="Run the jobs of an app until SIGTERM or Ctrl-C; a second one ends them at once. Jobs "
    "that are not finished are handed back, uncharged.",
    prints=False,
)
def worker(
    given: Settings,
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
    """Go on, as the same process, as the guardian of that worker."""
    processes.hold_signals()
    environment = {**os.environ, **plan.environment()}
    os.execve(sys.executable, [*processes.BEGIN, "limpet.worker.guardian"], environment)


def plan_of(name: str | None, given: Settings, logging: Logging, target: Target) -> Plan:
    """What the command line, the variables and the file ask for, checked."""
    app = settings.load(app=name).app
    if app is None:
        raise InvalidOption(
            "which app? Write limpet worker module:app, set LIMPET_APP, or write "
            'app = "module:app" into limpet.toml.'
        )
    if target.url is not None:
        open_store(target.url).close()
    found = settings.load_worker(given=_written(given))
    return Plan(
        app=app,
        url=target.url,
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
        log_level=logging.level,
        debug=target.debug,
        log_style=logging.log or ("pretty" if sys.stderr.isatty() else "plain"),
    )


def _written(given: Settings) -> dict[str, Any]:
    """What the command line says; a flag that is not written says nothing."""
    flags = {"burst": given.burst or None, "reload": given.reload or None}
    return {**asdict(given), "queues": given.queues or [], **flags}
