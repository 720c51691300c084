"""`limpet move`: take everything from one store to another."""

import argparse
import time
from datetime import timedelta
from typing import Any

from limpet.cli.output import note, say, say_json
from limpet.domain.duration import duration
from limpet.domain.errors import InvalidOption
from limpet.domain.plural import number_of
from limpet.ops.move import Mover, Progress
from limpet.storage.registry import open_store, same_store

_TELL_SECONDS = 1.0
_DESCRIPTION = (
    "Take every job of SOURCE to TARGET, an empty store: waiting and finished ones, with their "
    "timelines, lines, results, paused queues and totals. SOURCE is closed first: clients are told "
    "where it goes, running jobs are waited for, its workers end. Stopped halfway, it goes on "
    "when it is run again. Afterwards SOURCE can be read, not written."
)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "move", help="take everything from one store to another", description=_DESCRIPTION
    )
    parser.add_argument("source", metavar="SOURCE", help="the store to leave, as sqlite:///jobs.db")
    parser.add_argument("target", metavar="TARGET", help="an empty store, as redis://host:6379/0")
    parser.add_argument(
        "--wait", default="1m", metavar="TIME", help="how long to wait for running jobs (1m)"
    )
    parser.add_argument(
        "--abort", action="store_true",
        help="give up: open SOURCE again and empty TARGET, unless the move is finished",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Move, or give up."""
    from limpet.host.proofs import forget, proof
    from limpet.maintenance.sweeper import Sweeper

    wait = duration(_number(arguments.wait), what="--wait")
    if same_store(arguments.source, arguments.target):
        raise InvalidOption("SOURCE and TARGET are the same store; name another.")
    source, target = open_store(arguments.source), open_store(arguments.target)
    try:
        sweeper = Sweeper(source, None, proof, told=forget)
        mover = Mover(
            source,
            target,
            sweep=sweeper.sweep,
            tell=_Teller(quiet=arguments.json),
        )
        return _abort(arguments, mover) if arguments.abort else _move(arguments, mover, wait)
    finally:
        target.close()
        source.close()


def _number(text: str) -> str | float:
    """Seconds may be written without a unit."""
    try:
        return float(text)
    except ValueError:
        return text


def _move(arguments: argparse.Namespace, mover: Mover, wait: timedelta) -> int:
    done = mover.move(wait)
    jobs = number_of(done.jobs, "job")
    if arguments.json:
        say_json(done)
    elif done.already:
        say(f"{done.source} was already moved to {done.target}, which has {jobs}")
    else:
        say(f"moved {jobs} from {done.source} to {done.target} in {done.seconds:.1f} s")
        say("set LIMPET_URL, or the URL of the app, to the new place and start the workers there")
    return 0


def _abort(arguments: argparse.Namespace, mover: Mover) -> int:
    done = mover.abort()
    if arguments.json:
        say_json(done)
    elif done.aborted:
        say(f"gave up: {done.source} is open again; start its workers")
    else:
        say(f"{done.source} is not being moved there; nothing changed")
    return 0 if done.aborted else 1


class _Teller:
    """Says once a second how far the move is, beside what is printed at the end."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._next = time.monotonic() + _TELL_SECONDS

    def __call__(self, now: Progress) -> None:
        if self._quiet or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _TELL_SECONDS
        if now.running:
            text = f"waiting for {number_of(now.running, 'running job')}"
        else:
            text = f"{now.arrived} of {number_of(now.jobs, 'job')}"
        note(text)
