"""`limpet`: reads the command line, runs a command, says errors in one sentence."""

import argparse
import os
import sys
from collections.abc import Sequence

import limpet
from limpet.cli import (
    breakers,
    demo,
    enqueue,
    gate,
    hosts,
    job,
    jobs,
    keys,
    move,
    quarantine,
    queues,
    schedules,
    store,
    top,
    worker,
    workers,
)
from limpet.domain.errors import InvalidOption, LimpetError, PayloadInvalid, UnknownTask

_COMMANDS = (
    demo, worker, top, enqueue, jobs, job, quarantine, queues, keys, breakers,
    schedules, workers, hosts, gate, store, move,
)  # fmt: skip

DONE, NOT_WELL, WRONG_USAGE = 0, 1, 2

_USAGE_ERRORS = (InvalidOption, PayloadInvalid, UnknownTask)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    whole = argparse.ArgumentParser(
        prog="limpet",
        description="Durable jobs that cannot be orphaned.",
        epilog="Exit codes: 0 done, 1 the thing asked about is not well, 2 wrong usage.",
    )
    whole.add_argument("--version", action="version", version=f"limpet {limpet.__version__}")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add(commands)
    return whole


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the answer is the exit code."""
    arguments = parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return 130
    except LimpetError as error:
        if arguments.debug:
            raise
        print(f"limpet: {error}", file=sys.stderr)
        return WRONG_USAGE if isinstance(error, _USAGE_ERRORS) else NOT_WELL


if __name__ == "__main__":
    sys.exit(main())
