"""`limpet gate`: show whether this host has room for heavy work; run commands that wait for it."""

import os
import re
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from limpet.cli.command import command, group
from limpet.cli.output import complain, print_json, print_line, show
from limpet.cli.target import Common, Target, find_store
from limpet.cli.terminal import columns
from limpet.domain.clock import SystemClock
from limpet.domain.duration import duration
from limpet.domain.errors import InvalidOption, StoreError
from limpet.domain.size import size
from limpet.domain.weight import Weight
from limpet.ops.host_answer import GateStatus

_WATCH_SECONDS = 1.0
# Shortest time between two lines that say why the command waits.
_REASON_SECONDS = 5.0
_NO_SUCH_COMMAND = 127
# A number by itself, not in a name or an id.
_NUMBER = re.compile(r"(?<![\w.-])\d+(\.\d+)?(?![\w.-])")


ServerId = Annotated[
    str | None,
    typer.Option(
        "--server-id", metavar="NAME",
        help="the name of this host at the gate, as its workers have it (else LIMPET_SERVER_ID, "
        "else server_id of [worker] in limpet.toml, else the host's name)",
    ),
]  # fmt: skip

app = group("The gate lets weighted work begin only where there is room for it.")


# -- status and watch


@command(
    app,
    "status",
    "show whether weighted work may begin here",
    about="Show whether weighted work may begin on this host, and why not. Where no worker "
    "monitors the host, this command measures it for about a second. Exit code 1 when the host is "
    "not ready.",
)
def status(common: Common, server_id: ServerId = None) -> int:
    """Print the state of the gate once."""
    from limpet.gate.gauge import Gauge
    from limpet.gate.this_host import here
    from limpet.ops.gate import gate_status

    store, host = find_store(common), here(server_id)
    found = gate_status(store, Gauge(store, host).look(), SystemClock().wall())
    if common.json:
        print_json(found)
    else:
        from limpet.cli.host_picture import status_picture

        show(*status_picture(found), width=columns())
    return 0 if found.ready else 1


@command(
    app,
    "watch",
    "print a line whenever that changes",
    about="Show whether weighted work may begin on this host, one line per change, until Ctrl-C. "
    "With --json, one object per line.",
)
def watch(common: Common, server_id: ServerId = None) -> int:
    """Print a line for each change of the gate."""
    from limpet.gate.gauge import Gauge
    from limpet.gate.this_host import here
    from limpet.ops.gate import gate_status

    store, host = find_store(common), here(server_id)
    gauge, clock = Gauge(store, host), SystemClock()
    before: Any = None
    failing = False
    while True:
        try:
            found = gate_status(store, gauge.look(), clock.wall())
        except StoreError as error:
            if before is None:
                raise
            if not failing:
                complain(error)
            failing = True
        else:
            failing = False
            if (seen := _seen(found)) != before:
                before = seen
                _print_change(found, as_json=common.json)
        time.sleep(_WATCH_SECONDS)


def _seen(status: GateStatus) -> Any:
    """The facts whose change is worth a line; not numbers, which change every second."""
    reason = _NUMBER.sub("", status.reason)
    return status.ready, reason, status.warning, status.permits


def _print_change(status: GateStatus, *, as_json: bool) -> None:
    if as_json:
        print_json(status, indent=None)
    else:
        from limpet.cli.host_picture import status_text

        at = datetime.fromisoformat(status.at).astimezone()
        print_line(f"{at:%H:%M:%S}  {status_text(status)}")
    sys.stdout.flush()


# -- run


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much room a command takes, and how it waits for that room."""

    cpu: Annotated[
        float | None,
        typer.Option("--cpu", metavar="CORES", help="how many cores the command takes (else 1)"),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", metavar="SIZE", help="how much memory the command takes, as in 2GiB"
        ),
    ] = None
    heavy: Annotated[
        bool,
        typer.Option(
            "--heavy",
            help="only while the host is calm, and with no other weighted work beside it",
        ),
    ] = False
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="TIME", help="wait no longer, as in 10m (else no limit)"),
    ] = None
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="what holds the permit (else the command)"),
    ] = None

    def weight(self) -> Weight:
        """The room that the options name; raises `InvalidOption` for a wrong value."""
        memory = 0 if self.memory is None else self.memory
        size(memory, what="--memory")
        # One core is the default only where no other option names a weight.
        plain = self.memory is None and not self.heavy
        cpu = self.cpu if self.cpu is not None else float(plain)
        return Weight(cpu, memory, heavy=self.heavy)


@command(
    app,
    "run",
    "run a command when there is room",
    about="Wait for room on this host, hold a permit while the command runs, and leave no process "
    "of the command behind: not when it ends, not when it is interrupted, not when this program "
    "is killed. The first signal of each kind goes to the command; the same signal a second time "
    "ends its whole process tree. The tree is also ended when the permit is lost: because the "
    "store could not be reached for the lease of 10 s, or because this program was stopped "
    "(Ctrl-Z) for that long; the tree then does not go on when it is continued.",
    epilog="Exit codes: that of the command, 128 + n if signal n ended it, 127 if there is no "
    "such command, 1 if there was no room before --timeout, or the permit was lost.",
    prints=False,
    takes_words=True,
)
def run(
    wanted: Wanted,
    target: Target,
    words: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND [ARGUMENT …]")] = None,
    server_id: ServerId = None,
) -> int:
    """Run a command under a permit."""
    from limpet.gate.permits.permit import Permit, as_name
    from limpet.gate.permits.stop import Stopped
    from limpet.gate.run.contained import Interruption, PermitLease, run_contained
    from limpet.gate.run.guardian import CANNOT_BE_RUN
    from limpet.gate.this_host import here
    from limpet.host import marks, processes

    if not words:
        raise InvalidOption("which command? Write limpet gate run --cpu 1 -- COMMAND ….")
    if marks.MARK in os.environ:
        # This command would wait until the job around it ends, with the host reserved meanwhile.
        raise InvalidOption(
            "limpet gate run is inside of a job, or of another limpet gate run; name the weight "
            "in the task, @app.task(weight=Weight(…)), or in the outer command: --cpu, --memory."
        )
    if not processes.SUPPORTED:
        raise InvalidOption(f"limpet gate run cannot contain a command on {sys.platform}.")
    weight = wanted.weight()
    timeout = None if wanted.timeout is None else duration(wanted.timeout, what="--timeout")
    if shutil.which(words[0]) is None:
        if "/" in words[0] and os.path.exists(words[0]):
            complain(f"{words[0]} is not a program that may be run.")
            return CANNOT_BE_RUN
        complain(f"there is no command {words[0]!r} to run.")
        return _NO_SUCH_COMMAND
    store = find_store(target)
    lease, interruption = PermitLease(), Interruption()
    permit = Permit(
        store,
        lambda: here(server_id),
        weight,
        name=wanted.name or as_name(os.path.basename(words[0])),
        timeout=timeout,
        on_wait=_ReasonPrinter(),
        on_renewed=lease.renewed,
        on_lost=lease.lost,
        stop=interruption.stop,
    )
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interruption.handle)
    store.info()  # raises where there is no store: in a new one the permit would bind nobody else
    try:
        with permit:
            return run_contained(permit, lease, words, interruption, complain)
    except Stopped:
        return interruption.code


class _ReasonPrinter:
    """Prints on standard error why the command does not begin yet."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, reason: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _REASON_SECONDS
            complain(reason)
