"""`limpet keys`: how many jobs of one key may be under way."""

from typing import Annotated

import typer

from limpet.cli.command import command, group
from limpet.cli.output import print_json, print_line
from limpet.cli.rate import RateOptions
from limpet.cli.target import Common, find_store
from limpet.domain.errors import InvalidOption
from limpet.ops.queues import KeyLimits, limit_key

Key = Annotated[str, typer.Argument(metavar="KEY")]

app = group("Limit the jobs of one key.")


@command(
    app,
    "limit",
    "how many at once, and how often",
    about="Set for all jobs of a key how many may be under way and how often one may begin. This "
    "replaces what the jobs declare themselves, and what was set before.",
)
def limit(
    key: Key,
    rates: RateOptions,
    common: Common,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", metavar="N", help="this many at once")
    ] = None,
) -> int:
    """Limit a key."""
    rate = rates.checked()
    if concurrency is None and rate is None:
        raise InvalidOption("name what to limit: --concurrency, --rate, or both.")
    limits = limit_key(find_store(common), key, concurrency, rate)
    parts = [] if concurrency is None else [f"{concurrency} at once"]
    parts += [str(rate)] if rate else []
    return _done(common, limits, ", ".join(parts))


@command(
    app,
    "unlimit",
    "back to what the jobs declare",
    about="Take back what limpet keys limit has set.",
)
def unlimit(key: Key, common: Common) -> int:
    """Remove the limits of a key."""
    limits = limit_key(find_store(common), key)
    return _done(common, limits, "as its jobs declare")


def _done(common: Common, limits: KeyLimits, text: str) -> int:
    if common.json:
        print_json(limits)
    else:
        print_line(f"key {limits.key}: {text}")
    return 0
