"""`limpet top`: a store, live."""

import argparse
import sys
import time
from datetime import timedelta
from typing import Any

from limpet.cli.output import say, say_json
from limpet.cli.picture import picture
from limpet.cli.style import Line, Style, columns_of
from limpet.cli.target import add_target, find_store
from limpet.domain.duration import duration
from limpet.domain.errors import InvalidOption, StoreError
from limpet.ops.overview import finished_per_second, overview
from limpet.storage.contract.store import Store

_SHORTEST = timedelta(milliseconds=100)
_KEYS_THAT_QUIT = ("q", "Q", "\x1b", "\x03", "\x04")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "top",
        help="watch workers, queues and running jobs live",
        description="Watch a store live; q or Ctrl-C ends it. Where the output is no terminal, "
        "one picture is printed.",
    )
    parser.add_argument(
        "--every", default="1s", metavar="TIME", help="how often to look, as in 0.5s (1s)"
    )
    parser.add_argument("--once", action="store_true", help="print one picture and exit")
    add_target(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Draw until somebody has seen enough."""
    every = duration(arguments.every, what="--every")
    if every < _SHORTEST:
        raise InvalidOption(f"--every is {arguments.every!r}; write 0.1s or more.")
    store = find_store(arguments)
    if arguments.json:
        say_json(overview(store))
    elif arguments.once or not sys.stdout.isatty():
        _print(store)
    else:
        _watch(store, every.total_seconds())
    return 0


def _print(store: Store) -> None:
    for line in picture(overview(store), None, columns_of(sys.stdout)):
        say(line)


def _watch(store: Store, seconds: float) -> None:
    from limpet.cli.screen import STOP, Screen  # only where there are such terminals

    seen = before = overview(store)  # a store that cannot be read is said before the screen turns
    rates: dict[str, float] | None = None
    trouble: str | None = None
    next_look = time.monotonic() + seconds
    with Screen() as screen:
        while True:
            width, height = screen.size
            lines = picture(seen, rates, width, height - 1, trouble)
            lines += [()] * (height - 1 - len(lines))
            screen.draw([*lines, _foot(seconds)])
            told = screen.wait(next_look - time.monotonic())
            if told == STOP or told in _KEYS_THAT_QUIT:
                return
            if told is not None:
                continue  # a new size, or a key that means nothing
            next_look = time.monotonic() + seconds
            try:
                before, seen, trouble = seen, overview(store), None
                rates = finished_per_second(before, seen)
            except StoreError as error:
                trouble = str(error)


def _foot(seconds: float) -> Line:
    return ((f"q quits · looks every {seconds:g} s", Style.FAINT),)
