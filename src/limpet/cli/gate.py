"""`limpet gate`: whether this host has room for heavy work, and commands that wait for it."""

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
from limpet.cli.output import complain, say, say_json, show
from limpet.cli.target import Common, Target, find_store
from limpet.cli.terminal import columns
from limpet.domain.clock import SystemClock
from limpet.domain.duration import duration
from limpet.domain.errors import InvalidOption, StoreError
from limpet.domain.size import size
from limpet.domain.weight import Weight
from limpet.ops.host_answer import GateStatus

_WATCH_SECONDS = 1.0
# Why it waits is said so often at the most.
_TELL_SECONDS = 5.0
_NO_SUCH_COMMAND = 127
# By itself, not in a name or an id.
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
    "say whether weighted work may begin here",
    about="Say whether weighted work may begin on this host, and why not. Where no worker's "
    "monitor tells of it, it is measured for about a second. Exit code 1 when it is not ready.",
)
def status(common: Common, server_id: ServerId = None) -> int:
    """Say it once."""
    from limpet.gate.gauge import Gauge
    from limpet.gate.this_host import here
    from limpet.ops.gate import gate_status

    store, host = find_store(common), here(server_id)
    found = gate_status(store, Gauge(store, host).look(), SystemClock().wall())
    if common.json:
        say_json(found)
    else:
        from limpet.cli.host_picture import status_picture

        show(*status_picture(found), width=columns())
    return 0 if found.ready else 1


@command(
    app,
    "watch",
    "say it again whenever it changes",
    about="Say whether weighted work may begin on this host, one line per change, until Ctrl-C. "
    "With --json, one object per line.",
)
def watch(common: Common, server_id: ServerId = None) -> int:
    """Say it again and again."""
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
                _tell(found, as_json=common.json)
        time.sleep(_WATCH_SECONDS)


def _seen(status: GateStatus) -> Any:
    """What a change of is worth a line: a busy host has another number each second."""
    reason = _NUMBER.sub("", status.reason)
    return status.ready, reason, status.warning, status.permits


def _tell(status: GateStatus, *, as_json: bool) -> None:
    if as_json:
        say_json(status, indent=None)
    else:
        from limpet.cli.host_picture import status_text

        at = datetime.fromisoformat(status.at).astimezone()
        say(f"{at:%H:%M:%S}  {status_text(status)}")
    sys.stdout.flush()


# -- run


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much room a command takes, and how it waits for it."""

    cpu: Annotated[
        float | None,
        typer.Option("--cpu", metavar="CORES", help="how many cores it takes (else 1)"),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="how much memory it takes, as in 2GiB"),
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
        """The room, checked."""
        memory = 0 if self.memory is None else self.memory
        size(memory, what="--memory")
        # Whoever names something else than cores need not name those.
        plain = self.memory is None and not self.heavy
        cpu = self.cpu if self.cpu is not None else float(plain)
        return Weight(cpu, memory, heavy=self.heavy)


@command(
    app,
    "run",
    "run a command when there is room",
    about="Wait for room on this host, hold a permit while the command runs, and leave nothing of "
    "its process tree behind: not when it ends, nor when it is interrupted, nor when this program "
    "is killed. The first signal of each kind goes to the command, the same one a second time "
    "ends the whole tree. That is also ended when the permit is lost because the store could not "
    "be reached for the lease of 10 s, or this program was stopped (Ctrl-Z) for so long: then it "
    "is killed, and does not go on when it is continued.",
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
        # It would wait for the end of what it is a part of, and keep its host reserved meanwhile.
        raise InvalidOption(
            "limpet gate run is inside of a job, or of another limpet gate run; let the task say "
            "what it weighs, @app.task(weight=Weight(…)), or the outer one: --cpu, --memory."
        )
    if not processes.SUPPORTED:
        raise InvalidOption(f"limpet gate run cannot contain a command on {sys.platform}.")
    weight = wanted.weight()
    timeout = None if wanted.timeout is None else duration(wanted.timeout, what="--timeout")
    if shutil.which(words[0]) is None:
        if "/" in words[0] and os.path.exists(words[0]):
            complain(f"{words[0]} is no program that may be run.")
            return CANNOT_BE_RUN
        complain(f"there is no command {words[0]!r} to run.")
        return _NO_SUCH_COMMAND
    store = find_store(target)
    lease, asked = PermitLease(), Interruption()
    permit = Permit(
        store,
        lambda: here(server_id),
        weight,
        name=wanted.name or as_name(os.path.basename(words[0])),
        timeout=timeout,
        on_wait=_Teller(),
        on_renewed=lease.renewed,
        on_lost=lease.lost,
        stop=asked.stop,
    )
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, asked.hear)
    store.info()  # one that is not there is not made: nobody else would keep to its room
    try:
        with permit:
            return run_contained(permit, lease, words, asked, complain)
    except Stopped:
        return asked.code


class _Teller:
    """Says on standard error why the command does not begin yet."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, reason: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _TELL_SECONDS
            complain(reason)
