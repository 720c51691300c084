"""The options by which a command names a rate."""

from dataclasses import dataclass
from typing import Annotated

import typer

from limpet.domain.errors import InvalidOption
from limpet.domain.rate import Rate, rate_of


@dataclass(frozen=True, slots=True)
class RateOptions:
    """A rate, and how it is meant."""

    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="RATE", help="so many in a time, as 100/m or 5/s"),
    ] = None
    bursty: Annotated[
        bool, typer.Option("--bursty", help="those of the rate may begin all at once")
    ] = False

    def checked(self) -> Rate | None:
        """The rate that the command line names; None if there is none."""
        if self.rate is None:
            if self.bursty:
                raise InvalidOption("--bursty says how a rate is meant; give it one: --rate 100/m.")
            return None
        return rate_of(self.rate, bursty=self.bursty, what="--rate")
