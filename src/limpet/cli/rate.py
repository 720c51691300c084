"""The options by which a command names a rate."""

import argparse

from limpet.domain.errors import InvalidOption
from limpet.domain.rate import Rate, rate_of


def add_rate(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    parser.add_argument("--rate", metavar="RATE", help="so many in a time, as 100/m or 5/s")
    parser.add_argument(
        "--bursty", action="store_true", help="those of the rate may begin all at once"
    )


def rate_said(arguments: argparse.Namespace) -> Rate | None:
    """The rate that the command line names, checked; None if there is none."""
    if arguments.rate is None:
        if arguments.bursty:
            raise InvalidOption("--bursty says how a rate is meant; give it one: --rate 100/m.")
        return None
    return rate_of(arguments.rate, bursty=arguments.bursty, what="--rate")
