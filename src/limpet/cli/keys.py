"""`limpet keys`: how many jobs of one key may be under way."""

import argparse
from typing import Any

from limpet.cli.output import say, say_json
from limpet.cli.rate import add_rate, rate_said
from limpet.cli.target import add_target, find_store
from limpet.domain.errors import InvalidOption
from limpet.ops.queues import KeyLimits, limit_key


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("keys", help="limit the jobs of one key")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    limit = actions.add_parser(
        "limit",
        help="how many at once, and how often",
        description="Say for all jobs of a key how many may be under way and how often one "
        "begins, instead of what they say themselves and of what was set before.",
    )
    limit.add_argument("key", metavar="KEY")
    limit.add_argument("--concurrency", type=int, metavar="N", help="so many at once")
    add_rate(limit)
    add_target(limit)
    limit.set_defaults(run=_limit)
    unlimit = actions.add_parser(
        "unlimit",
        help="as the jobs say themselves",
        description="Take back what limpet keys limit has set.",
    )
    unlimit.add_argument("key", metavar="KEY")
    add_target(unlimit)
    unlimit.set_defaults(run=_unlimit)


def _limit(arguments: argparse.Namespace) -> int:
    rate = rate_said(arguments)
    if arguments.concurrency is None and rate is None:
        raise InvalidOption("say what to limit: --concurrency, --rate, or both.")
    limits = limit_key(find_store(arguments), arguments.key, arguments.concurrency, rate)
    parts = [] if arguments.concurrency is None else [f"{arguments.concurrency} at once"]
    parts += [str(rate)] if rate else []
    return _done(arguments, limits, ", ".join(parts))


def _unlimit(arguments: argparse.Namespace) -> int:
    limits = limit_key(find_store(arguments), arguments.key)
    return _done(arguments, limits, "as its jobs say themselves")


def _done(arguments: argparse.Namespace, limits: KeyLimits, text: str) -> int:
    if arguments.json:
        say_json(limits)
    else:
        say(f"key {arguments.key}: {text}")
    return 0
