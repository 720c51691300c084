"""`limpet`: reads the command line, runs a command, says errors in one sentence."""

import argparse
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
from limpet.cli.output import CannotPrint, complain
from limpet.domain.errors import InvalidOption, LimpetError, PayloadInvalid, UnknownTask
from limpet.host.arguments import hide_credentials
from limpet.host.shortage import is_lack, sentence_of
from limpet.host.streams import discard, open_missing

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
    hide_credentials()
    missing = open_missing()
    arguments = parser().parse_args(argv)
    try:
        if "stdout" in missing and not _is_heard_elsewhere(arguments):
            raise InvalidOption(
                "standard output is closed, so that nothing could be printed; send it somewhere, "
                "as with >/dev/null."
            )
        code: int = arguments.run(arguments)
    except KeyboardInterrupt:
        return 130
    except LimpetError as error:
        if arguments.debug:
            raise
        complain(error)
        code = WRONG_USAGE if isinstance(error, _USAGE_ERRORS) else NOT_WELL
    except BrokenPipeError:
        code = DONE  # whoever read our output has gone; there is nobody to tell
    except CannotPrint as error:
        code = _cannot_print(error.error)
    except Exception as error:
        if arguments.debug or not is_lack(error):
            raise
        complain(sentence_of(error))
        code = WRONG_USAGE
    return _flushed(code)


def _is_heard_elsewhere(arguments: argparse.Namespace) -> bool:
    """Whether what a command prints is not what it is run for."""
    return arguments.command == "worker" or getattr(arguments, "action", None) == "run"


def _flushed(code: int) -> int:
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


if __name__ == "__main__":
    sys.exit(main())
