"""`limpet hosts`: what the machines carry, and what they have given away."""

import argparse
import sys
import time
from typing import Any

from limpet.cli.host_picture import hosts_lines
from limpet.cli.output import say, say_json
from limpet.cli.style import Line, Palette, Style, clean, columns_of
from limpet.cli.target import add_target, find_store
from limpet.domain.errors import InvalidOption, StoreError
from limpet.ops.record import Record
from limpet.storage.base import Store

_WATCH_SECONDS = 1.0
_KEYS_THAT_QUIT = ("q", "Q", "\x1b", "\x03", "\x04")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "hosts",
        help="show what hosts carry and have room for",
        description="Show each host that runs workers or has given permits: CPU (the greater of "
        "now and smoothed) and memory beside their thresholds, pressure of the memory, permits, "
        "the job or caller for which it is reserved, and how old the reading of its monitor is.",
    )
    parser.add_argument("--watch", action="store_true", help="live, until q or Ctrl-C")
    add_target(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the hosts, or watch them."""
    store = find_store(arguments)
    if arguments.watch:
        if arguments.json or not sys.stdout.isatty():
            raise InvalidOption("--watch is for a terminal; leave it out, or --json.")
        _watch(store)
        return 0
    hosts = _look(store)
    if arguments.json:
        say_json(hosts)
    elif not hosts:
        say("no hosts: no worker measures one, and nobody holds a permit")
    else:
        palette = Palette.of(sys.stdout)
        for line in hosts_lines(hosts, columns_of(sys.stdout)):
            say(palette.paint(line).rstrip())
    return 0


def _look(store: Store) -> list[Record]:
    from limpet.ops.hosts import list_hosts  # which needs what measures hosts

    return list_hosts(store)


def _watch(store: Store) -> None:
    from limpet.cli.screen import STOP, Screen  # only where there are such terminals

    hosts = _look(store)  # a store that cannot be read is said before the screen turns
    trouble = ""
    next_look = time.monotonic() + _WATCH_SECONDS
    with Screen() as screen:
        while True:
            screen.draw(_page(hosts, trouble, *screen.size))
            told = screen.wait(next_look - time.monotonic())
            if told == STOP or told in _KEYS_THAT_QUIT:
                return
            if told is not None:
                continue  # a new size, or a key that means nothing
            next_look = time.monotonic() + _WATCH_SECONDS
            try:
                hosts, trouble = _look(store), ""
            except StoreError as error:
                trouble = str(error)


def _page(hosts: list[Record], trouble: str, width: int, height: int) -> list[Line]:
    head: Line = (("limpet hosts", Style.HEAD), (f"  {len(hosts)}", Style.PLAIN))
    below: Line = ((f"this is old: {clean(trouble)}", Style.BAD),) if trouble else ()
    table = hosts_lines(hosts, width) if hosts else [(("no hosts", Style.WARN),)]
    lines = [head, below, *table][: height - 1]
    foot: Line = ((f"q quits · looks every {_WATCH_SECONDS:g} s", Style.FAINT),)
    return [*lines, *[()] * (height - 1 - len(lines)), foot]
