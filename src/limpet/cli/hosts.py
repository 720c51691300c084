"""`limpet hosts`: the load of the hosts, and the permits that were given on them."""

from typing import Annotated

import typer
from rich.console import Group, RenderableType

from limpet.cli.command import command, group
from limpet.cli.host_detail import detail_picture
from limpet.cli.host_picture import hosts_picture
from limpet.cli.output import print_json, show
from limpet.cli.style import Style, text
from limpet.cli.target import Common, find_store
from limpet.cli.terminal import columns, is_terminal
from limpet.domain.errors import InvalidOption
from limpet.ops.host_answer import HostAnswer
from limpet.storage.contract.store import Store

app = group()


@command(
    app,
    "hosts",
    "show what hosts carry and have room for, or one of them in detail",
    about="Show each host that runs workers or has given permits: CPU (the greater of now and "
    "smoothed) and memory beside their thresholds, memory pressure, permits, the job or caller "
    "for which the host is reserved, and the age of its monitor's reading. With SERVER, show that "
    "host alone: the largest use of CPU and memory in each part of the last 15 minutes and of the "
    "last 7 days, all pressures, load, disk, who holds its permits and since when, and what its "
    "executors use.",
)
def hosts(
    common: Common,
    server: Annotated[
        str | None, typer.Argument(metavar="SERVER", help="one host, in detail")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="live, until q or Ctrl-C")] = False,
) -> int:
    """Print all hosts or one, once or live."""
    store = find_store(common)
    view = _All(store) if server is None else _One(store, server)
    if watch:
        if common.json or not is_terminal():
            raise InvalidOption(
                "--watch is for a terminal, and not for --json; leave one of them out."
            )
        _watch(view)
        return 0
    view.look()
    if common.json:
        print_json(view.seen)
    else:
        show(*view.picture(columns()), width=columns())
    return 0


class _All:
    """A line for each host."""

    every_seconds = 1.0

    def __init__(self, store: Store) -> None:
        self._store = store
        self.seen: list[HostAnswer] = []

    def look(self) -> None:
        from limpet.ops.hosts import list_hosts  # loads what measures hosts

        self.seen = list_hosts(self._store)

    def picture(self, width: int | None) -> list[RenderableType]:
        if not self.seen:
            return [text("no hosts: no worker measures one, and nobody holds a permit")]
        return hosts_picture(self.seen, width)


class _One:
    """One host in detail; looks less often, because the history is long."""

    every_seconds = 3.0

    def __init__(self, store: Store, server: str) -> None:
        self._store = store
        self._server = server
        self.seen: HostAnswer | None = None

    def look(self) -> None:
        from limpet.ops.hosts import show_host

        self.seen = show_host(self._store, self._server)

    def picture(self, width: int | None) -> list[RenderableType]:
        return [] if self.seen is None else detail_picture(self.seen, width)


def _watch(view: _All | _One) -> None:
    from limpet.cli.watch import watch  # imports what only Unix terminals have

    def page(width: int, height: int, trouble: str | None) -> RenderableType:
        old = [text(f"this is old: {trouble}", Style.BAD)] if trouble else []
        return Group(*old, *view.picture(width))

    view.look()  # an unreadable store raises here, before the screen is taken over
    watch(view.look, page, view.every_seconds)
