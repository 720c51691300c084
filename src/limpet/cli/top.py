"""`limpet top`: watch a store live."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

import typer

from limpet.cli.command import command, group
from limpet.cli.output import print_json, show
from limpet.cli.target import Common, find_store
from limpet.cli.terminal import columns, is_terminal
from limpet.domain.duration import duration
from limpet.domain.errors import InvalidOption
from limpet.ops.overview import finished_per_second, overview
from limpet.storage.contract.store import Store

_SHORTEST = timedelta(milliseconds=100)

app = group()


@command(
    app,
    "top",
    "watch workers, queues and running jobs live",
    about="Watch a store live; q or Ctrl-C ends it. Where the output is not a terminal, one "
    "picture is printed.",
)
def top(
    common: Common,
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="how often to look, as in 0.5s")
    ] = "1s",
    once: Annotated[bool, typer.Option("--once", help="print one picture and exit")] = False,
) -> int:
    """Draw until the person quits."""
    pause = duration(every, what="--every")
    if pause < _SHORTEST:
        raise InvalidOption(f"--every is {every!r}; write 0.1s or more.")
    store = find_store(common)
    if common.json:
        print_json(overview(store))
    elif once or not is_terminal():
        _print(store)
    else:
        _watch(store, pause.total_seconds())
    return 0


def _print(store: Store) -> None:
    from limpet.cli.picture import picture

    width = columns()
    show(picture(overview(store), None, width), width=width)


class _Looks:
    """The last two looks at a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.seen = overview(store)
        self.rates: Mapping[str, float] | None = None

    def look(self) -> None:
        """Look again."""
        before, self.seen = self.seen, overview(self._store)
        self.rates = finished_per_second(before, self.seen)


def _watch(store: Store, seconds: float) -> None:
    from limpet.cli.picture import picture
    from limpet.cli.watch import watch  # imports what only Unix terminals have

    looks = _Looks(store)  # an unreadable store raises here, before the screen is taken over
    watch(
        looks.look,
        lambda width, height, trouble: picture(looks.seen, looks.rates, width, height, trouble),
        seconds,
    )
