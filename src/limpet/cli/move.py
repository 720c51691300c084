"""`limpet move`: take everything from one store to another."""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated

import typer

from limpet.cli.command import command, group
from limpet.cli.output import print_json, print_line
from limpet.cli.progress import ProgressLine
from limpet.cli.target import Debug, Json
from limpet.domain.duration import duration
from limpet.domain.errors import InvalidOption
from limpet.domain.plural import number_of
from limpet.ops.move import MoveProgress as Moving
from limpet.ops.move import Mover
from limpet.storage.registry import open_store, same_store


@dataclass(frozen=True, slots=True)
class Output:
    """The options of a command that takes its stores as arguments."""

    json: Json = False
    debug: Debug = False


app = group()


@command(
    app,
    "move",
    "take everything from one store to another",
    about="Take every job of SOURCE to TARGET, an empty store: waiting and finished jobs, with "
    "their timelines, log lines, results, paused queues and totals. SOURCE is closed first: "
    "its clients learn the new URL, running jobs finish, its workers end. A move that was stopped "
    "halfway goes on when it is run again. Afterwards SOURCE can be read, not written.",
)
def move(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="the store to leave, as sqlite:///jobs.db")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="an empty store, as redis://host:6379/0")
    ],
    output: Output,
    wait: Annotated[
        str, typer.Option("--wait", metavar="TIME", help="how long to wait for running jobs")
    ] = "1m",
    abort: Annotated[
        bool,
        typer.Option(
            "--abort",
            help="give up: open SOURCE again and empty TARGET, unless the move is finished",
        ),
    ] = False,
) -> int:
    """Move, or give up."""
    from limpet.host.proofs import forget, proof
    from limpet.maintenance.sweeper import Sweeper

    longest = duration(_number(wait), what="--wait")
    if same_store(source, target):
        raise InvalidOption("SOURCE and TARGET are the same store; name another.")
    old, new = open_store(source), open_store(target)
    try:
        sweeper = Sweeper(old, None, proof, forget=forget)
        progress = ProgressLine(quiet=output.json)
        mover = Mover(old, new, sweep=sweeper.sweep, on_progress=partial(_show, progress))
        return _abort(output, mover) if abort else _move(output, mover, progress, longest)
    finally:
        new.close()
        old.close()


def _number(text: str) -> str | float:
    """Read a number without a unit as seconds."""
    try:
        return float(text)
    except ValueError:
        return text


def _move(output: Output, mover: Mover, progress: ProgressLine, wait: timedelta) -> int:
    with progress:
        done = mover.move(wait)
    jobs = number_of(done.jobs, "job")
    if output.json:
        print_json(done)
    elif done.already:
        print_line(f"{done.source} was already moved to {done.target}, which has {jobs}")
    else:
        print_line(f"moved {jobs} from {done.source} to {done.target} in {done.seconds:.1f} s")
        print_line(
            "set LIMPET_URL, or the URL of the app, to the new place and start the workers there"
        )
    return 0


def _abort(output: Output, mover: Mover) -> int:
    done = mover.abort()
    if output.json:
        print_json(done)
    elif done.aborted:
        print_line(f"gave up: {done.source} is open again; start its workers")
    else:
        print_line(f"{done.source} is not being moved to TARGET; nothing changed")
    return 0 if done.aborted else 1


def _show(progress: ProgressLine, now: Moving) -> None:
    if now.running:
        progress.update(f"waiting for {number_of(now.running, 'running job')}")
    else:
        words = f"{now.arrived} of {number_of(now.jobs, 'job')}"
        progress.update(words, now.arrived, now.jobs)
