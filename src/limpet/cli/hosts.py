"""`limpet hosts`: what the machines carry, and what they have given away."""

import argparse
import sys
import time
from typing import Any

from limpet.cli.host_detail import detail_lines
from limpet.cli.host_picture import hosts_lines
from limpet.cli.output import say, say_json
from limpet.cli.style import Line, Style, columns_of
from limpet.cli.target import add_target, find_store
from limpet.domain.errors import HostNotFound, InvalidOption, StoreError
from limpet.ops.host_answer import HostAnswer
from limpet.storage.contract.store import Store

_KEYS_THAT_QUIT = ("q", "Q", "\x1b", "\x03", "\x04")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "hosts",
        help="show what hosts carry and have room for, or one of them in detail",
        description="Show each host that runs workers or has given permits: CPU (the greater of "
        "now and smoothed) and memory beside their thresholds, pressure of the memory, permits, "
        "the job or caller for which it is reserved, and how old the reading of its monitor is. "
        "With SERVER that host alone: the largest use of CPU and memory in each part of the last "
        "15 minutes and of the last 7 days, all pressures, load, disk, who holds its permits and "
        "since when, and what executors use.",
    )
    parser.add_argument("server", metavar="SERVER", nargs="?", help="one host, in detail")
    parser.add_argument("--watch", action="store_true", help="live, until q or Ctrl-C")
    add_target(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the hosts, or one, or watch."""
    store = find_store(arguments)
    view = _All(store) if arguments.server is None else _One(store, arguments.server)
    if arguments.watch:
        if arguments.json or not sys.stdout.isatty():
            raise InvalidOption(
                "--watch is for a terminal, and not for --json; leave one of them out."
            )
        _watch(view)
        return 0
    view.look()
    if arguments.json:
        say_json(view.seen)
    else:
        for line in view.lines(columns_of(sys.stdout)):
            say(line)
    return 0


class _All:
    """A line for each host."""

    every_seconds = 1.0

    def __init__(self, store: Store) -> None:
        self._store = store
        self.seen: list[HostAnswer] = []

    def look(self) -> None:
        from limpet.ops.hosts import list_hosts  # which needs what measures hosts

        self.seen = list_hosts(self._store)

    def lines(self, width: int) -> list[Line]:
        if not self.seen:
            text = "no hosts: no worker measures one, and nobody holds a permit"
            return [((text, Style.PLAIN),)]
        return hosts_lines(self.seen, width)


class _One:
    """One host in detail; less often, because its past is long."""

    every_seconds = 3.0

    def __init__(self, store: Store, server: str) -> None:
        self._store = store
        self._server = server
        self.seen: HostAnswer | None = None

    def look(self) -> None:
        from limpet.ops.hosts import show_host

        self.seen = show_host(self._store, self._server)

    def lines(self, width: int) -> list[Line]:
        return [] if self.seen is None else detail_lines(self.seen, width)


def _watch(view: _All | _One) -> None:
    from limpet.cli.screen import STOP, Screen  # only where there are such terminals

    view.look()  # a store that cannot be read is said before the screen turns
    trouble = ""
    next_look = time.monotonic() + view.every_seconds
    with Screen() as screen:
        while True:
            screen.draw(_page(view, trouble, *screen.size))
            told = screen.wait(next_look - time.monotonic())
            if told == STOP or told in _KEYS_THAT_QUIT:
                return
            if told is not None:
                continue  # a new size, or a key that means nothing
            next_look = time.monotonic() + view.every_seconds
            try:
                view.look()
                trouble = ""
            except (StoreError, HostNotFound) as error:
                trouble = str(error)


def _page(view: _All | _One, trouble: str, width: int, height: int) -> list[Line]:
    lines = view.lines(width)
    if trouble:
        lines = [((f"this is old: {trouble}", Style.BAD),), *lines]
    lines = lines[: height - 1]
    foot: Line = ((f"q quits · looks every {view.every_seconds:g} s", Style.FAINT),)
    return [*lines, *[()] * (height - 1 - len(lines)), foot]
